import { dirname, join, normalize } from 'node:path'

/** Layers by folder, and what each may import (ARCHITECTURE.md). `types` = only `import type`. */
const layers: Record<string, { may: string[]; types?: string[] }> = {
  lib: { may: ['lib'] },
  policy: { may: ['lib', 'policy'] },
  db: { may: ['lib', 'policy', 'db'] },
  edge: { may: ['lib', 'policy', 'db', 'edge'] },
  runtimes: { may: ['lib', 'policy', 'runtimes'] },
  activities: { may: ['lib', 'policy', 'db', 'activities', 'edge', 'runtimes'] },
  workflows: { may: ['lib', 'policy', 'workflows'], types: ['db', 'activities'] },
  api: { may: ['lib', 'policy', 'db', 'api'], types: ['activities', 'workflows'] },
}
/** Composition roots: they may import everything, and nothing may import them. */
export const roots = ['workers', 'cli', 'test', 'bench', 'scripts']

/** A library may be imported only where the pattern says. */
const fences: [library: RegExp, where: RegExp][] = [
  [/^(node:)?child_process$/, /^lib\/child-process\.ts$|^(bench|test)\//],
  [/^koa$|^@koa\//, /^(api|workers|bench|test)\//],
  [/^dockerode$/, /^activities\/containers\/docker\/|^(bench|test)\//],
  [/^@aws-sdk\//, /^activities\/objects\/s3\.ts$|^test\//],
  [/^nodemailer/, /^activities\/mail\//],
  [/^acme-client$/, /^activities\/certificates\/acme\//],
  [/^dns-packet$/, /^workers\/|^test\//],
  [/^tldts$/, /^policy\/domains\//],
  [/^(@peculiar\/x509|reflect-metadata)$/, /^activities\/certificates\//],
  [/^knex$/, /^(db|workers|bench|test)\//],
  [/^pg$/, /^(db|workers|bench|test)\/|^activities\/databases\/engines\/postgres/],
  [/^mysql2(\/|$)/, /^activities\/databases\/engines\/mysql|^(bench|test)\//],
  [/^ioredis$/, /^activities\/databases\/engines\/redis\/|^(bench|test)\//],
  [/^mongodb$/, /^activities\/databases\/engines\/mongo|^(bench|test)\//],
  [/^@duckdb\//, /^activities\/analytics\/duckdb[\w-]*\.ts$|^bench\//],
  [/^(bowser|isbot)$/, /^activities\/analytics\/agents\.ts$/],
  [
    /^(undici|eventsource-parser)$/,
    /^activities\/(language-model|packages)\/|^cli\/services\/verified-download\.ts$|^(bench|test)\//,
  ],
  [/^mmdb-lib$/, /^lib\/address-database\.ts$/],
  [/^@grpc\//, /^workers\/connect\.ts$/],
  [/^@temporalio\/workflow$/, /^(workflows|test)\//],
]

interface Import {
  from: string
  typeOnly: boolean
  lazy?: boolean
}

/** Strings and comments stay: imports stand at the start of a line, which is all that is looked for. */
function importsOf(text: string): Import[] {
  const statements = text.matchAll(/^(?:import|export)\s+(type\s)?(?:([^'"]*?)\sfrom\s)?['"]([^'"]+)['"]/gm)
  const dynamic = text.matchAll(/\b(?:import|require|getBuiltinModule)\(\s*['"]([^'"]+)['"]/g)
  return [
    ...[...statements].map(([, type, names, from]) => ({
      from: from as string,
      typeOnly: Boolean(type) || onlyTypes(names),
    })),
    ...[...dynamic].map(([, from]) => ({ from: from as string, typeOnly: false, lazy: true })),
  ]
}

function onlyTypes(names: string | undefined): boolean {
  const inner = /^\{([^}]*)\}$/s.exec(names?.trim() ?? '')?.[1]
  return inner?.split(',').every(name => /^\s*(type\s|$)/.test(name)) ?? false
}

/** Where tables are read and written: db/, and what seeds or looks at them for a test or a measurement. */
const mayTouchTables = /^(db|test|bench)\//
const handle = /\b(?:db|trx|tx|knex)(?:<[^()]*>)?\(\s*['"`]/
const builder = /(?<!\b(?:Buffer|Array|Readable))\.(?:from|into|table)\(\s*['"`]/
const raw = /\.raw\(\s*(['"`])([\s\S]*?)\1/g

/** Adapters of the databases that customers rent, which never see the platform's. */
const customersEngines = /^activities\/databases\/engines\//

/** Whether a file reads or writes a table where it may not; statements about the server itself (`pg_*`) are none. */
export function touchesTables(path: string, text: string): boolean {
  if (mayTouchTables.test(path) || customersEngines.test(path)) return false
  return (
    handle.test(text) ||
    builder.test(text) ||
    [...text.matchAll(raw)].some(([, , sql]) => /\b(?:from|join|into|update)\s+(?!pg_)"?[a-z_]+/i.test(sql!))
  )
}

export const folderOf = (path: string): string => path.split('/')[0] as string

/**
 * Files of up to `maxLines` lines that one file of the same folder imports and nothing else does, tests included, as
 * `file > importer`: they join it unless it would grow past `ceiling` lines. Lazy imports keep a file apart.
 */
export function fragmentsOf(
  sources: readonly { path: string; text: string }[],
  { maxLines, ceiling }: { maxLines: number; ceiling: number },
): string[] {
  const lines = new Map(sources.map(({ path, text }) => [path, text.trimEnd().split('\n').length]))
  const importers = new Map<string, Set<string>>()
  for (const { path, text } of sources)
    for (const { from, lazy } of importsOf(text)) {
      const target = normalize(join(dirname(path), from))
      importers.set(target, (importers.get(target) ?? new Set()).add(lazy ? 'lazy' : path))
    }
  return [...importers].flatMap(([path, [importer = '', ...others]]) => {
    const own = lines.get(path) ?? Number.POSITIVE_INFINITY
    const joins = others.length === 0 && dirname(importer) === dirname(path) && own <= maxLines
    return joins && own + (lines.get(importer) ?? 0) <= ceiling ? [`${path} > ${importer}`] : []
  })
}

/** The import rule as sentences, one per breach. */
export function breachesOf(path: string, text: string): string[] {
  const folder = folderOf(path)
  const rule = layers[folder]
  return importsOf(text).flatMap(({ from, typeOnly }) => {
    if (!from.startsWith('.')) {
      const fence = fences.find(([library]) => library.test(from))
      return fence && !typeOnly && !fence[1].test(path) ? [`${path} imports ${from}`] : []
    }
    if (!from.endsWith('.ts') && !/\.(js|mjs|json)$/.test(from))
      return [`${path} imports ${from} without its extension`]
    const target = folderOf(normalize(join(dirname(path), from)))
    if (!rule) return roots.includes(target) && !roots.includes(folder) ? [`${path} imports ${from}`] : []
    const allowed = target === 'lib' || rule.may.includes(target) || (typeOnly && rule.types?.includes(target))
    return allowed ? [] : [`${path} imports ${typeOnly ? 'types of ' : ''}${from}`]
  })
}
