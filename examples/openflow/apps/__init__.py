"""The applications of controller.py: one module each."""

MODULES = {"learning": "learning", "lagopus-2014": "flows", "static": "flows"}

# Flows of the file that controller.py was given; none: those of the experiment of 2014.
FLOWS = []
