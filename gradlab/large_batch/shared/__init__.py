"""A batch whose rows are spread over processes, evaluated without any of them holding all; or on one, with any loss but one of pairs."""
