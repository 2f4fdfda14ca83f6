"""What reproduces the papers, built only from the rooms above."""
