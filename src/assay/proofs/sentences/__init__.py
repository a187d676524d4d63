"""Networks on words: bounds over sets of sentences, and a search that cuts the sets."""
