"""Work on the findings of a campaign beside and after its tests: reduce, key anew, merge again."""
