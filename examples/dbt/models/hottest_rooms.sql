-- A view, as models are unless they say otherwise: a query over streams, without events of its own.
select room, max(temp) as temp
from {{ ref('warm_readings') }} join {{ ref('rooms') }} using (sensor_id)
group by room
