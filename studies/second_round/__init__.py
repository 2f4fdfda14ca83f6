"""The second round: what is tested, declared before it is trained, and the code that trains exactly
that.
"""
