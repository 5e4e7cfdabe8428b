"""How fast is each lane at each batch, and where does one overtake another?"""
