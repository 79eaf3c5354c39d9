import { execFile } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { findDatabaseDrivers } from '../../../cli/test/clients/database-drivers.ts'
import type { EngineName } from '../../../policy/databases/engine.ts'
import { checkout } from '../command.ts'
import type { Program } from '../programs.ts'

export type Language = 'node' | 'python'

/** The example of a driver, by the name of its file. */
export interface Driver {
  engine: EngineName
  language: Language
  name: string
}

export const drivers: readonly Driver[] = [
  { engine: 'postgres', language: 'node', name: 'pg' },
  { engine: 'mysql', language: 'node', name: 'mysql2' },
  { engine: 'redis', language: 'node', name: 'ioredis' },
  { engine: 'mongo', language: 'node', name: 'mongodb' },
  { engine: 'postgres', language: 'python', name: 'use_psycopg' },
  { engine: 'mysql', language: 'python', name: 'use_pymysql' },
  { engine: 'redis', language: 'python', name: 'use_redis' },
  { engine: 'mongo', language: 'python', name: 'use_pymongo' },
]

/** What an owner has of a database. */
export interface Credentials {
  connection_url: string
  certificate: string
}

/** The variables that the examples read. */
export const variablesOf = (engine: EngineName, { connection_url: url, certificate }: Credentials) => ({
  [`${engine.toUpperCase()}_URL`]: url,
  [`${engine.toUpperCase()}_CERTIFICATE`]: certificate,
})

const examples = join(checkout, 'examples/databases')
const children = join(checkout, 'test/kit/children')
const servers = { node: 'driver-server.js', python: 'driver_server.py' } as const

/** A web application of the examples, which installs their drivers. */
export function driversApp(language: Language): Program {
  const folder = join(examples, language)
  const read = (file: string) => [file, readFileSync(join(folder, file), 'utf8')]
  const main = servers[language]
  return {
    main,
    files: {
      ...Object.fromEntries(readdirSync(folder).filter(isSource).map(read)),
      [main]: readFileSync(join(children, main), 'utf8'),
    },
  }
}

const isSource = (file: string): boolean => /\.(js|json|py|txt)$/.test(file)

export interface DriverRun {
  code: number | string
  stdout: string
  stderr: string
}

/** Seconds after which a program of a driver is ended. On an idle machine it takes one, or twelve until a pool gives up. */
const timeoutSeconds = 120

/** Runs the example of a driver on this machine as a program, which counts two visits. Resolves also when it fails. */
export function runExample({ language, name }: Driver, variables: Record<string, string>): Promise<DriverRun> {
  if (language === 'node')
    return run(process.execPath, [join(children, servers.node), join(examples, 'node', `${name}.js`)], variables)
  return run(findDatabaseDrivers(), [join(children, servers.python), name], {
    PYTHONPATH: join(examples, 'python'),
    PYTHONDONTWRITEBYTECODE: '1',
    ...variables,
  })
}

/** Connects with a driver as it does by default, with nothing but a URL: `accepted`, or `refused: …`. */
export async function connectBare({ language, name }: Driver, url: string): Promise<string> {
  const bare = join(children, language === 'node' ? 'bare-driver.js' : 'bare_driver.py')
  const program = language === 'node' ? process.execPath : findDatabaseDrivers()
  const { stdout, stderr } = await run(program, [bare, name], { URL: url })
  return stdout.trim() || stderr
}

function run(program: string, args: string[], variables: Record<string, string>): Promise<DriverRun> {
  const env = { PATH: '/usr/local/bin:/usr/bin:/bin', LC_ALL: 'C.UTF-8', ...variables }
  return new Promise(resolve => {
    const options = { env, timeout: timeoutSeconds * 1000, killSignal: 'SIGKILL' } as const
    execFile(program, args, options, (error, stdout, stderr) =>
      resolve({ code: error ? (error.code ?? error.signal ?? '?') : 0, stdout, stderr }),
    )
  })
}
