"""What tests have shown decides what is generated next: probes, supported operators, restraint, emphasis."""
