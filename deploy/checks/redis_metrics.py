"""What alerts may ask of the exporter of components/redis-metrics. keeper_test.py asks a real one for each."""

# Metric -> (type, its labels). Masters show no link to a master.
SHOWN = {
    "redis_up": ("gauge", set()),
    "redis_memory_used_bytes": ("gauge", set()),
    "redis_memory_max_bytes": ("gauge", set()),
    "redis_db_keys_expiring": ("gauge", {"db"}),
    "redis_master_link_up": ("gauge", {"master_host", "master_port"}),
}
