"""Attacks on running gateways: functions that every kind of server must withstand."""
