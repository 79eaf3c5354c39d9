import { randomBytes } from 'node:crypto'
import { ignoreError } from '../../../../../lib/async/ignore-error.ts'
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
  const mark = randomBytes(8).toString('hex')
  /** Between two marks the values of sequences that are in the dump: those in the engine may have changed. */
  const steps = [
    `mkfifo /tmp/pipe`,
    `cat /tmp/pipe >> ${file} &`,
    `${pg('pg_dump')} -Fc -Z zstd:1 --no-sync --no-password --lock-wait-timeout=60s --snapshot="$2" --file=/tmp/pipe --dbname="$1"`,
    `wait $!`,
    `echo ${mark}`,
    `${pg('pg_restore')} --list ${file} | { grep -E '^[0-9]+; [0-9]+ [0-9]+ SEQUENCE SET ' || true; } > /tmp/list`,
    `${pg('pg_restore')} --use-list=/tmp/list --file=- ${file}`,
    `echo ${mark}`,
  ]
  let printed = ''
  let isWritten = false
  let ran: Promise<void> | undefined
  /** Resolves when the file has all, before its container has ended. */
  const fill = (from: string[]) =>
    new Promise<void>((written, failed) => {
      const hear = (output: string) => {
        printed += output
        isWritten ||= printed.includes(mark)
        if (isWritten) written()
      }
      ran = job.run(['sh', '-ec', steps.join('\n'), 'sh', ...from], { hear })
      ran.then(written, failed)
    })
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
        await writer.append(dumpFile(number), () => fill(from))
        await dumped(rows[0].public)
        await ran
        return await contentsOfDatabase(client, sequenceValues(between(printed, mark)))
      } catch (error) {
        failures.push(error)
        return null
      } finally {
        await ran?.catch(ignoreError('it has failed the dump'))
      }
    },
  )
  if (contents === null) throw failures[0]
  return contents
}

/** What was printed between two marks. */
function between(printed: string, mark: string): string {
  const [, text, after] = printed.split(`${mark}\n`)
  if (text === undefined || after === undefined)
    throw new Error('The values of sequences in the dump were not printed.')
  return text
}

function sequenceValues(text: string): SequenceValues {
  const calls = text.matchAll(/^SELECT pg_catalog\.setval\('((?:[^']|'')*)', (-?\d+), (true|false)\);$/gm)
  return new Map([...calls].map(([, name, value, called]) => [name!.replaceAll("''", "'"), `${value} ${called}`]))
}
