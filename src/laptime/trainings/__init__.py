"""What is trained when nobody brings a training: networks, and data that is made or published."""
