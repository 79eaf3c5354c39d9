import { execFile } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import type { S3Access } from './gateway.ts'

/** Timeout of one program, in seconds. On an idle machine it takes a few. */
const timeoutSeconds = 90

export interface Program {
  /** Runs it with more arguments. Resolves to what it wrote; rejects with all of that when it fails, and after 90 s. */
  run(...args: string[]): Promise<{ stdout: string; stderr: string }>
}

/**
 * A program with its first arguments, which knows only the given environment and a home folder below `folder`; relative paths begin at
 * `folder`.
 */
export function programIn(folder: string, command: readonly string[], env: Record<string, string>): Program {
  const home = join(folder, '.home')
  mkdirSync(home, { recursive: true })
  const [file, ...first] = command as [string, ...string[]]
  const options = {
    cwd: folder,
    env: { PATH: '/usr/local/bin:/usr/bin:/bin', HOME: home, TMPDIR: home, LC_ALL: 'C.UTF-8', ...env },
    timeout: timeoutSeconds * 1000,
    killSignal: 'SIGKILL',
    maxBuffer: 16 * 1024 * 1024,
  } as const
  return {
    run: (...args) =>
      new Promise((resolve, reject) => {
        execFile(file, [...first, ...args], options, (error, stdout, stderr) => {
          if (!error) return resolve({ stdout, stderr })
          const end = error.signal ?? `exit code ${error.code}`
          reject(new Error(`${[...command, ...args].join(' ')}\nended with ${end}\n${stdout}\n${stderr}`))
        })
      }),
  }
}

/** The environment by which programs of Amazon find the gateway. */
export function amazonEnvironment({ url, region, accessKeyId, secretAccessKey, caFile }: S3Access) {
  return {
    AWS_ENDPOINT_URL_S3: url,
    AWS_DEFAULT_REGION: region,
    AWS_ACCESS_KEY_ID: accessKeyId,
    AWS_SECRET_ACCESS_KEY: secretAccessKey,
    // Otherwise they look for the credentials of a virtual machine.
    AWS_EC2_METADATA_DISABLED: 'true',
    ...(caFile !== undefined && { AWS_CA_BUNDLE: caFile, REQUESTS_CA_BUNDLE: caFile }),
  }
}
