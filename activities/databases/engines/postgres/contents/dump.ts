import { Tree } from '../../../../../lib/folders/tree.ts'
import { databaseSeconds } from '../../../../../policy/databases/database-steps.ts'
import { dumpPlace, type EngineJob } from '../../../contents.ts'
import type { DumpWriter } from '../../../dump-files.ts'
import { type DatabaseTraits, type LocalEngine, places } from '../../../port.ts'
import { asPlatform, program } from '../postgres.ts'
import { platformRole } from '../postgres-settings.ts'
import { contentsOfDatabase, readerSettings, type SequenceValues } from './digest.ts'

const { copy: copySeconds } = databaseSeconds

export const dumpFile = (number: number): string => `${number}.dump`

/** Options of the programs, with a database whose name may be anything. */
export const connection = ({ port }: DatabaseTraits, user: string, database: string): string =>
  Object.entries({
    host: places.run,
    port,
    user,
    dbname: database,
    options: '-c role=none -c default_transaction_read_only=off',
  })
    .map(([name, value]) => `${name}='${String(value).replaceAll(/['\\]/g, '\\$&')}'`)
    .join(' ')

interface OneDump {
  name: string
  number: number
  writer: DumpWriter
  /** Called with whether there is a schema `public`, once its file is written. */
  dumped(hasPublicSchema: boolean): Promise<void>
}

/**
 * Dumps one database and then digests it, both as one transaction sees it. Not at the same time: both would wait for locks of customers, in
 * circles that no engine sees. The file is written from its start to its end, which is why pg_dump gets a pipe.
 */
export async function dumpDatabase(
  engine: LocalEngine,
  job: EngineJob,
  { name: database, number, writer, dumped }: OneDump,
): Promise<string> {
  const pg = (name: string) => program(engine.traits.version, name)
  const file = `${dumpPlace}/${dumpFile(number)}`
  const sequences = `${number}.sequences`
  /** The values of sequences that are in the dump: those in the engine may have changed. */
  const steps = [
    `mkfifo /tmp/pipe`,
    `cat /tmp/pipe >> ${file} &`,
    `${pg('pg_dump')} -Fc -Z zstd:1 --no-sync --no-password --lock-wait-timeout=60s --snapshot="$2" --file=/tmp/pipe --dbname="$1"`,
    `wait $!`,
    `${pg('pg_restore')} --list ${file} | { grep -E '^[0-9]+; [0-9]+ [0-9]+ SEQUENCE SET ' || true; } > /tmp/list`,
    `${pg('pg_restore')} --use-list=/tmp/list --file=${dumpPlace}/${sequences} ${file}`,
  ]
  const failures: unknown[] = []
  const contents = await asPlatform(
    engine,
    { seconds: copySeconds, database, settings: readerSettings },
    async client => {
      await client.query('begin isolation level repeatable read read only')
      const { rows } = await client.query(
        `select pg_export_snapshot() as snapshot, to_regnamespace('public') is not null as public`,
      )
      try {
        const from = [connection(engine.traits, platformRole, database), rows[0].snapshot]
        await writer.append(dumpFile(number), () => job.run(['sh', '-ec', steps.join('\n'), 'sh', ...from]))
        const values = sequenceValues(taken(job, sequences))
        await dumped(rows[0].public)
        return await contentsOfDatabase(client, values)
      } catch (error) {
        failures.push(error)
        return null
      }
    },
  )
  if (contents === null) throw failures[0]
  return contents
}

/** The text of a file that a job has written, which is removed. */
function taken(job: EngineJob, name: string): string {
  const tree = new Tree(job.folder)
  try {
    const text = tree.read(name)
    tree.remove(name)
    if (text === null) throw new Error(`The job has not written ${name}.`)
    return text
  } finally {
    tree.close()
  }
}

function sequenceValues(text: string): SequenceValues {
  const calls = text.matchAll(/^SELECT pg_catalog\.setval\('((?:[^']|'')*)', (-?\d+), (true|false)\);$/gm)
  return new Map([...calls].map(([, name, value, called]) => [name!.replaceAll("''", "'"), `${value} ${called}`]))
}
