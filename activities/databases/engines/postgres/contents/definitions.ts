/**
 * An expression as text that is equal before and after a dump: Postgres writes casts and parentheses anew when it reads its own text back.
 */
const loose = (text: string): string =>
  `regexp_replace(regexp_replace(${text}, '::("[^"]+"|[a-z_][a-z0-9_ ]*)([.]("[^"]+"|[a-z_][a-z0-9_ ]*))*([(]\\d+(,\\d+)?[)])?(\\[\\])*', '', 'g'), '[\\s()]', '', 'g')`

const roleName = (oid: string): string => `pg_get_userbyid(${oid})`

/** Who may do what; a missing list means the default one. Who granted it is left out. */
const acl = (list: string, kind: string, owner: string): string =>
  `(select jsonb_agg(distinct jsonb_build_array(case a.grantee when 0 then null else ${roleName('a.grantee')} end, a.privilege_type, a.is_grantable))
    from aclexplode(coalesce(${list}, acldefault(${kind}, ${owner}))) a)`

const sorted = (list: string): string => `(select jsonb_agg(o order by o collate "C") from unnest(${list}) o)`

/** Postgres keeps a counter of its own among the options of columns since 17.12, which its dumps leave out. */
const options = `(select jsonb_agg(o order by o collate "C") from unnest(a.attoptions) o where o not like 'pg\\_attver=%')`

/** Not of an extension, which makes its own. */
const own = (catalog: string, oid: string): string =>
  `not exists (select from pg_depend d where d.classid = '${catalog}'::regclass and d.objid = ${oid} and d.deptype = 'e')`

/** Schemas of the customer; `n` in the other queries. */
export const customerSchemas = `n.nspname !~ '^pg_' and n.nspname <> 'information_schema'`

const named = (catalog: string, prefix: string, alias: string): string =>
  `from ${catalog} ${alias} join pg_namespace n on n.oid = ${alias}.${prefix}namespace
   where ${customerSchemas} and ${own(catalog, `${alias}.oid`)}`

/** Objects with a name, a schema and an owner of which little else is there. */
const plain = (what: string, catalog: string, prefix: string, facts: string): string =>
  `select jsonb_build_array('${what}', n.nspname, x.${prefix}name, ${roleName(`x.${prefix}owner`)}, ${facts}) ${named(catalog, prefix, 'x')}`

/** Relations: of the customer, in a schema of the customer. */
const relations = `pg_class c join pg_namespace n on n.oid = c.relnamespace and ${customerSchemas} and ${own('pg_class', 'c.oid')}`

/** Each returns lines; the sorted lines of all of them are what a database defines. Names of relations are complete, never numbers. */
export const definitions: readonly string[] = [
  `select jsonb_build_array('schema', n.nspname, ${roleName('n.nspowner')}, ${acl('n.nspacl', `'n'`, 'n.nspowner')})
   from pg_namespace n where ${customerSchemas} and ${own('pg_namespace', 'n.oid')}`,

  `select jsonb_build_array('relation', n.nspname, c.relname, c.relkind, ${roleName('c.relowner')}, c.relpersistence, c.relreplident,
     c.relrowsecurity, c.relforcerowsecurity, ${sorted('c.reloptions')}, ${loose('pg_get_expr(c.relpartbound, c.oid)')},
     case c.relkind when 'p' then ${loose('pg_get_partkeydef(c.oid)')} end, c.reloftype::regtype::text,
     case when c.relkind in ('v', 'm') then ${loose('pg_get_viewdef(c.oid)')} end,
     ${acl('c.relacl', `case c.relkind when 'S' then 's'::"char" else 'r'::"char" end`, 'c.relowner')})
   from ${relations} where c.relkind in ('r', 'p', 'v', 'm', 'S', 'c', 'f')`,

  // A table that inherits has other positions after a dump, because its own columns follow then.
  `select jsonb_build_array('column', n.nspname, c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
     ${loose('pg_get_expr(d.adbin, d.adrelid)')}, a.attidentity, a.attgenerated, a.attcollation::regcollation::text, a.attstorage,
     a.attcompression, coalesce(a.attstattarget, -1), ${options}, ${acl('a.attacl', `'c'`, 'c.relowner')},
     case when c.relispartition or not exists (select from pg_inherits i where i.inhrelid = c.oid)
       then row_number() over (partition by c.oid order by a.attnum) end)
   from ${relations} join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
     left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
   where c.relkind in ('r', 'p', 'v', 'm', 'c', 'f')`,

  `select jsonb_build_array('constraint', n.nspname, k.conrelid::regclass::text, k.contypid::regtype::text, k.conname, k.contype, k.convalidated,
     ${loose('pg_get_constraintdef(k.oid)')})
   from pg_constraint k join pg_namespace n on n.oid = k.connamespace
   where ${customerSchemas} and k.conparentid = 0 and k.contype <> 't' and ${own('pg_constraint', 'k.oid')}
     and ${own('pg_class', 'k.conrelid')} and ${own('pg_type', 'k.contypid')}`,

  // Dumps leave out indexes whose making failed.
  `select jsonb_build_array('index', n.nspname, c.relname, ${loose('pg_get_indexdef(c.oid)')}, i.indisclustered, i.indisreplident,
     (select h.inhparent::regclass::text from pg_inherits h where h.inhrelid = c.oid),
     (select jsonb_agg(coalesce(a.attstattarget, -1) order by a.attnum) from pg_attribute a where a.attrelid = c.oid))
   from ${relations} join pg_index i on i.indexrelid = c.oid where (i.indisvalid or c.relkind = 'I') and ${own('pg_class', 'i.indrelid')}`,

  `select jsonb_build_array('trigger', n.nspname, ${loose('pg_get_triggerdef(t.oid)')}, t.tgenabled)
   from ${relations} join pg_trigger t on t.tgrelid = c.oid where not t.tgisinternal and t.tgparentid = 0`,

  `select jsonb_build_array('rule', n.nspname, ${loose('pg_get_ruledef(r.oid)')}, r.ev_enabled)
   from ${relations} join pg_rewrite r on r.ev_class = c.oid where r.rulename <> '_RETURN'`,

  `select jsonb_build_array('policy', n.nspname, c.relname, p.polname, p.polcmd, p.polpermissive,
     (select jsonb_agg(case r when 0 then null else ${roleName('r')} end order by r = 0, ${roleName('r')} collate "C") from unnest(p.polroles) r),
     ${loose('pg_get_expr(p.polqual, p.polrelid)')}, ${loose('pg_get_expr(p.polwithcheck, p.polrelid)')})
   from ${relations} join pg_policy p on p.polrelid = c.oid`,

  `select jsonb_build_array('inherits', n.nspname, c.relname, i.inhparent::regclass::text, case when c.relispartition then 0 else i.inhseqno end)
   from ${relations} join pg_inherits i on i.inhrelid = c.oid where c.relkind in ('r', 'p', 'f')`,

  `select jsonb_build_array('sequence', n.nspname, c.relname, s.seqtypid::regtype::text, s.seqstart, s.seqincrement, s.seqmax, s.seqmin, s.seqcache,
     s.seqcycle, (select jsonb_agg(jsonb_build_array(o.refobjid::regclass::text, a.attname, o.deptype)) from pg_depend o
       join pg_attribute a on a.attrelid = o.refobjid and a.attnum = o.refobjsubid
       where o.classid = 'pg_class'::regclass and o.objid = c.oid and o.refclassid = 'pg_class'::regclass and o.deptype in ('a', 'i')))
   from ${relations} join pg_sequence s on s.seqrelid = c.oid`,

  `select jsonb_build_array('function', p.oid::regprocedure::text, p.prokind, ${roleName('p.proowner')}, ${acl('p.proacl', `'f'`, 'p.proowner')}, p.prosrc,
     case p.prokind when 'a' then (select jsonb_build_array(g.aggkind, g.aggtransfn::text, g.aggfinalfn::text, g.aggcombinefn::text,
         g.aggmtransfn::text, g.aggminvtransfn::text, g.aggmfinalfn::text, g.aggsortop::regoperator::text,
         format_type(g.aggtranstype, null), g.agginitval, g.aggminitval, p.proparallel)
         from pg_aggregate g where g.aggfnoid = p.oid)
       else to_jsonb(${loose('pg_get_functiondef(p.oid)')}) end)
   ${named('pg_proc', 'pro', 'p')}`,

  `select jsonb_build_array('type', n.nspname, t.typname, t.typtype, ${roleName('t.typowner')}, ${acl('t.typacl', `'T'`, 't.typowner')},
     format_type(t.typbasetype, t.typtypmod), t.typnotnull, ${loose('t.typdefault')}, t.typcollation::regcollation::text,
     (select jsonb_agg(e.enumlabel order by e.enumsortorder) from pg_enum e where e.enumtypid = t.oid),
     (select jsonb_build_array(format_type(r.rngsubtype, null), r.rngcollation::regcollation::text, r.rngcanonical::text, r.rngsubdiff::text)
       from pg_range r where r.rngtypid = t.oid))
   ${named('pg_type', 'typ', 't')} and not exists (select from pg_type e where e.typarray = t.oid)
     and (t.typrelid = 0 or exists (select from pg_class c where c.oid = t.typrelid and c.relkind = 'c'))`,

  plain(
    'operator',
    'pg_operator',
    'opr',
    'x.oid::regoperator::text, x.oprcode::text, x.oprcanmerge, x.oprcanhash, x.oprrest::text, x.oprjoin::text',
  ),
  plain(
    'collation',
    'pg_collation',
    'coll',
    'x.collprovider, x.collisdeterministic, x.collcollate, x.collctype, x.colllocale, x.collicurules',
  ),
  plain('conversion', 'pg_conversion', 'con', 'x.conproc::text, x.conforencoding, x.contoencoding, x.condefault'),
  plain(
    'statistics',
    'pg_statistic_ext',
    'stx',
    `coalesce(x.stxstattarget, -1), ${loose('pg_get_statisticsobjdef(x.oid)')}`,
  ),
  plain('dictionary', 'pg_ts_dict', 'dict', 'x.dicttemplate::text, x.dictinitoption'),
  plain(
    'search',
    'pg_ts_config',
    'cfg',
    `(select jsonb_agg(jsonb_build_array(m.maptokentype, m.mapseqno, m.mapdict::regdictionary::text) order by m.maptokentype, m.mapseqno)
      from pg_ts_config_map m where m.mapcfg = x.oid)`,
  ),

  `select jsonb_build_array('cast', format_type(x.castsource, null), format_type(x.casttarget, null), x.castfunc::regprocedure::text, x.castcontext, x.castmethod)
   from pg_cast x where x.oid >= 16384 and ${own('pg_cast', 'x.oid')}`,

  // Its version is that of the image.
  `select jsonb_build_array('extension', x.extname, n.nspname) from pg_extension x join pg_namespace n on n.oid = x.extnamespace`,

  `select jsonb_build_array('publication', x.pubname, ${roleName('x.pubowner')}, x.pubinsert, x.pubupdate, x.pubdelete, x.pubtruncate, x.pubviaroot,
     (select jsonb_agg(jsonb_build_array(r.prrelid::regclass::text, ${loose('pg_get_expr(r.prqual, r.prrelid)')}, r.prattrs is null)
       order by r.prrelid::regclass::text collate "C") from pg_publication_rel r where r.prpubid = x.oid))
   from pg_publication x`,

  `select jsonb_build_array('default rights', ${roleName('x.defaclrole')}, (select n.nspname from pg_namespace n where n.oid = x.defaclnamespace),
     x.defaclobjtype, ${acl('x.defaclacl', `'r'`, 'x.defaclrole')}) from pg_default_acl x`,

  `select jsonb_build_array('comment', i.type, i.identity, x.description)
   from pg_description x, pg_identify_object(x.classoid, x.objoid, x.objsubid) i
   where (x.objoid >= 16384 or (x.classoid = 'pg_namespace'::regclass and i.identity = 'public'))
     and not exists (select from pg_depend d where d.classid = x.classoid and d.objid = x.objoid and d.deptype = 'e')`,

  `select jsonb_build_array('large object', x.oid, ${roleName('x.lomowner')}, ${acl('x.lomacl', `'L'`, 'x.lomowner')})
   from pg_largeobject_metadata x`,
]
