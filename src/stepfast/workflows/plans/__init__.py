"""Plans: what graphs and templates compile to, and the one interpreter that walks them."""
