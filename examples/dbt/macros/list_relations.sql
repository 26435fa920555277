{#
  What there is in a schema. dbt-spark asks with SHOW TABLE EXTENDED, from which Spark leaves out the views of catalogs, so
  they are added here with their columns, in the words that dbt-spark looks for.
#}
{% macro spark__list_relations_without_caching(relation) %}
  {% call statement('tables', fetch_result=True) -%}
    show table extended in {{ relation.schema }} like '*'
  {%- endcall %}
  {% call statement('views', fetch_result=True) -%}
    show views in {{ relation.schema }}
  {%- endcall %}
  {% set found = [] %}
  {% for table in load_result('tables').table %}
    {% do found.append(table) %}
  {% endfor %}
  {% for view in load_result('views').table %}
    {% call statement('columns', fetch_result=True) -%}
      describe {{ relation.schema }}.`{{ view[1] }}`
    {%- endcall %}
    {% set lines = ['Type: VIEW', 'Schema: root'] %}
    {% for column in load_result('columns').table if column[0] and not column[0].startswith('#') %}
      {% do lines.append(' |-- ' ~ column[0] ~ ': ' ~ column[1] ~ ' (nullable = true)') %}
    {% endfor %}
    {% do found.append([view[0], view[1], false, lines | join('\n') ~ '\n']) %}
  {% endfor %}
  {% do return(found) %}
{% endmacro %}
