"""The gradient of a loss in closed form and by autograd, what it tells, and Lemma 1."""
