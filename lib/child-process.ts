import * as children from 'node:child_process'

export type { ChildProcess, StdioOptions } from 'node:child_process'

/** Variables by name; one without a value is left out. */
export type Environment = Readonly<Record<string, string | undefined>>

export interface ChildOptions {
  /** The whole environment of the program; empty by default, and never inherits ours. */
  env?: Environment
  cwd?: string
  uid?: number
  gid?: number
}

export interface StartOptions extends ChildOptions {
  stdio?: children.StdioOptions
  /** Starts a new process group. */
  detached?: boolean
}

/** The environment in which system programs find others, and write the messages that we parse. */
export const systemEnvironment: Environment = {
  PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
  LC_ALL: 'C',
}

/** Variables with which downloading programs reach the network: proxies and certificate authorities. */
export const networkVariables: readonly string[] = [
  ...['HTTP_PROXY', 'HTTPS_PROXY', 'ALL_PROXY', 'NO_PROXY'].flatMap(name => [name, name.toLowerCase()]),
  'SSL_CERT_FILE',
  'SSL_CERT_DIR',
  'NODE_EXTRA_CA_CERTS',
]

/** Variables of our environment with these names, to be passed on; unset ones are left out. */
export function ownVariables(names: readonly string[]): Environment {
  return Object.fromEntries(names.filter(name => name in process.env).map(name => [name, process.env[name]]))
}

/** Starts a program with only the given environment. A failed start is its `error` event. */
export function startProcess(
  program: string,
  args: readonly string[],
  { env = {}, ...options }: StartOptions = {},
): children.ChildProcess {
  return children.spawn(program, args, { ...options, env: { ...env } })
}

/**
 * Runs a program to its end with only the given environment; resolves to its output, at most 1 MiB. Rejects with an Error with
 * `code`, `stdout` and `stderr` when the exit code is not 0, and when it was killed after `timeoutMs`.
 */
export function runProcess(
  program: string,
  args: readonly string[],
  { env = {}, timeoutMs: timeout, ...options }: ChildOptions & { timeoutMs?: number } = {},
): Promise<{ stdout: string; stderr: string }> {
  const own = { ...options, env: { ...env }, encoding: 'utf8', timeout, killSignal: 'SIGKILL' } as const
  return new Promise((resolve, reject) => {
    children.execFile(program, args, own, (error, stdout, stderr) => {
      if (error) reject(Object.assign(error, { stdout, stderr }))
      else resolve({ stdout, stderr })
    })
  })
}

/**
 * Resolves to the exit code of a started program, 1 when a signal ended it, and to its output and errors, as far as they are pipes.
 * Rejects when it could not be started.
 */
export function outcomeOf(child: children.ChildProcess): Promise<{ code: number; output: string; error: string }> {
  return new Promise((resolve, reject) => {
    let output = ''
    let error = ''
    child.stdout?.on('data', chunk => {
      output += chunk
    })
    child.stderr?.on('data', chunk => {
      error += chunk
    })
    child.once('error', reject)
    child.once('close', code => resolve({ code: code ?? 1, output, error }))
  })
}

/** Runs a program to its end synchronously, with only the given environment. Throws when the exit code is not 0. */
export function runProcessNow(
  program: string,
  args: readonly string[],
  { env = {}, ...options }: ChildOptions = {},
): void {
  children.execFileSync(program, args, { ...options, env: { ...env }, stdio: 'ignore' })
}
