"""What every submitter shares: finding the farm, writing a job file, sending it, words for what went wrong.

What belongs here: code for any host program.  Standard library only, Python 3.7 syntax, no import of any
host's modules and none of the farm's: the farm is a program that is called.
"""
