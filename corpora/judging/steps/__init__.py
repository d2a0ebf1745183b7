"""The steps that judge a record, in the order in which a batch goes through them.

clean            repaired and normalized (ftfy, Unicode, white space)
lines            lines taken out: C4's rules, and lines that many documents share
language         CLD2
rules            Gopher, C4, FineWeb: which documents are dropped for what they look like
privacy          personal data masked: private_patterns by definition, private_kernels as the gate before it
contamination    what holds a piece of an evaluation set; evaluation_sets reads them
selection        what is near to a set of questions, as Stories was gathered
added            the contract of steps from other packages
"""
