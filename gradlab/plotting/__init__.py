"""One style, and the plots that more than one figure is made of."""
