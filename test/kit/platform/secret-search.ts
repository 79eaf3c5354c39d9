import { execFile } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Db } from '../../../db/database.ts'
import type { Config } from '../../../policy/config.ts'
import { openTemporal } from '../../../workers/connect.ts'
import { laneId } from '../../../workflows/ids.ts'

export type Holds = (text: string) => boolean

/** Whether a text holds one of these secrets, however it is spelled: as it is, in a URL, in JSON, in hex, in base64. */
export function searchFor(secrets: readonly string[]): Holds {
  const spellings = spellingsOf(secrets)
  return text => spellings.some(spelling => text.includes(spelling))
}

const spellingsOf = (secrets: readonly string[]): string[] =>
  secrets.flatMap(secret => [
    secret,
    encodeURIComponent(secret),
    JSON.stringify(secret).slice(1, -1),
    Buffer.from(secret).toString('hex'),
    // Inside a longer text base64 begins at any of three places.
    ...[0, 1, 2].map(lead =>
      Buffer.from('x'.repeat(lead) + secret)
        .toString('base64')
        .slice(lead && 4, -4),
    ),
  ])

/** Every table as a text, as in a dump, by its name. */
export async function tableTexts(db: Db): Promise<Record<string, string>> {
  const { rows } = await db.raw(`select tablename from pg_tables where schemaname = 'public'`)
  const names: string[] = rows.map((row: { tablename: string }) => row.tablename)
  if (!names.includes('app_variables')) throw new Error('the tables are not to be seen')
  const texts: Record<string, string> = {}
  // One after another: they would wait for connections at once.
  for (const name of names) {
    const { rows: all } = await db.raw(`select string_agg(t::text, ' ') as text from ?? t`, [name])
    texts[name] = all[0].text ?? ''
  }
  return texts
}

/** Tables of which a row holds it. */
export async function tablesWith(db: Db, holds: Holds): Promise<string[]> {
  return Object.entries(await tableTexts(db)).flatMap(([name, text]) => (holds(text) ? [name] : []))
}

/** Every event of every run of the lane of an application, or of another workflow, its bytes as text. */
export async function historyOf(config: Config, appId: string, workflowId = laneId(appId)): Promise<string> {
  const client = openTemporal(config)
  let text = ''
  for await (const { runId } of client.workflow.list({ query: `WorkflowId = '${workflowId}'` })) {
    const history = await client.workflow.getHandle(workflowId, runId).fetchHistory()
    text += JSON.stringify(history, (_, value) =>
      value?.type === 'Buffer' ? Buffer.from(value.data).toString() : value,
    )
  }
  await client.connection.close()
  return text
}

/** What every process of this machine was called with. */
export function commandLines(): string {
  const read = (pid: string) => {
    try {
      return readFileSync(`/proc/${pid}/cmdline`, 'latin1')
    } catch {
      return '' // it has ended
    }
  }
  return readdirSync('/proc')
    .filter(name => /^\d+$/.test(name))
    .map(read)
    .join('\n')
}

/** Files below a folder that hold it; those of applications are seen where they are mounted, and what goes meanwhile held nothing. */
export function filesWith(folder: string, holds: Holds): string[] {
  const paths = filesBelow(folder).filter(path => !path.endsWith('.ext4'))
  return paths.filter(path => holds(unlessMissing(() => readFileSync(path, 'latin1'), '')))
}

/** The same, of large files too, and of many secrets at once. */
export function largeFilesWith(folder: string, secrets: readonly string[]): Promise<string[]> {
  const args = ['--recursive', '--text', '--fixed-strings', '--files-with-matches', '--null', '--devices=skip']
  return new Promise((resolve, reject) => {
    const child = execFile(
      'grep',
      [...args, '--no-messages', '--exclude=*.ext4', '--file=-', folder],
      { env: { PATH: process.env.PATH, LC_ALL: 'C' }, maxBuffer: 1 << 24 },
      // 2: a file went meanwhile, and what was found is said nevertheless.
      (error, stdout) =>
        error && error.code !== 1 && error.code !== 2 ? reject(error) : resolve(stdout.split('\0').filter(Boolean)),
    )
    child.stdin?.end(`${spellingsOf(secrets).join('\n')}\n`)
  })
}

function filesBelow(folder: string): string[] {
  return unlessMissing(() => readdirSync(folder, { withFileTypes: true }), []).flatMap(entry => {
    const path = join(folder, entry.name)
    return entry.isDirectory() ? filesBelow(path) : entry.isFile() ? [path] : []
  })
}

function unlessMissing<T>(look: () => T, otherwise: T): T {
  try {
    return look()
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return otherwise
    throw error
  }
}
