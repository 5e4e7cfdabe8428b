"""Which lanes became faster or slower since another record, and how did a lane change over time?"""
