import { type ChildProcess, fork, type Serializable } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { unusedPort } from '../../cli/installation/ports.ts'

export interface Started<T> {
  child: ChildProcess
  /** The first that it reported. */
  reported: T
}

/** A program of this repository as a process of its own, sent a message, once it has reported. Rejects when it ends before that. */
export async function startProgram<T = unknown>(
  file: string,
  args: readonly string[],
  env: Record<string, string> = {},
  flags: readonly string[] = [],
  message?: Serializable,
): Promise<Started<T>> {
  const child = fork(fileURLToPath(new URL(file, import.meta.url)), args, {
    execArgv: [...flags, '--import=tsx'],
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    env: { PATH: process.env.PATH, ...env },
  })
  if (message !== undefined) child.send(message)
  const ended = once(child, 'exit').then(() => Promise.reject(new Error(`${file} ended before it was ready`)))
  const [reported] = await Promise.race([once(child, 'message'), ended])
  ended.catch(() => {}) // later the program that started it ends it
  return { child, reported }
}

export interface ApiSettings {
  databaseUrl: string
  masterKey: string
  /** Thrown away by the caller. */
  folder: string
  /** Further settings by their names. */
  settings?: Record<string, string>
}

/** One API process on ports of its own, with limits out of the way and nobody at Temporal's address. */
export async function startApi(
  { databaseUrl, masterKey, folder, settings }: ApiSettings,
  threads: Record<string, string>,
  flags: readonly string[],
) {
  const names = ['API_PORT', 'BLOB_PORT', 'S3_PORT', 'FILES_PORT', 'PUBLIC_PORT']
  const ports = Object.fromEntries(await Promise.all(names.map(async name => [name, String(await unusedPort())])))
  const env = {
    ...threads,
    DATABASE_URL: databaseUrl,
    BERTH_MASTER_KEY: masterKey,
    BERTH_DATA: `${folder}/data`,
    RATE_LIMIT_SCALE: '1000000',
    TEMPORAL_ADDRESS: `127.0.0.1:${await unusedPort()}`,
    ...ports,
    ...settings,
  }
  const { child } = await startProgram('../../workers/api.ts', [], env, flags)
  const at = (name: string) => `http://127.0.0.1:${ports[name]}`
  return { child, url: at('API_PORT'), blobUrl: at('BLOB_PORT'), publicUrl: at('PUBLIC_PORT') }
}
