"""What would it take on hardware that is not here, and cost?"""
