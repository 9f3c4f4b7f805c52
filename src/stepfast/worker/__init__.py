"""Workers: they claim runs, execute them, keep their leases alive and look after what others left behind."""
