"""Games: who moves when. One file each."""
