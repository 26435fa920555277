-- A stream that grows: each run appends what has come since the last one, in one transaction.
{{ config(materialized='incremental', incremental_strategy='append') }}

select sensor_id, taken, temp
from {{ ref('readings') }}
where temp > 20
{% if is_incremental() %}
  and taken > (select max(taken) from {{ this }})
{% endif %}
