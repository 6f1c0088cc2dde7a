"""One module per application: typed parameters, command lines, log parser, exit truth."""
