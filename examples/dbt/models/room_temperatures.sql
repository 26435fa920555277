-- A table that each run drops and creates again: a stream of JSON.
{{ config(
    materialized='table',
    tblproperties={'format': 'json', 'routing-key': 'room'},
    persist_docs={'relation': true},
) }}

select room, avg(temp) as temp, count(*) as readings
from {{ ref('readings') }} join {{ ref('rooms') }} using (sensor_id)
group by room
