"""Models of sentences: bags of words exactly, networks by bounds over sets that are cut."""
