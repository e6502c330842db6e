"""Tools that people use already; each is one file, and imports its tool."""
