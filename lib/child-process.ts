import * as children from 'node:child_process'

export type { ChildProcess, StdioOptions } from 'node:child_process'

/** Variables by name; one without a value is left out. */
export type Environment = Readonly<Record<string, string | undefined>>

export interface ChildOptions {
  /** All that it finds in its environment: nothing when left out, above all nothing of ours. */
  env?: Environment
  cwd?: string
  uid?: number
  gid?: number
}

export interface StartOptions extends ChildOptions {
  stdio?: children.StdioOptions
  /** A process group of its own. */
  detached?: boolean
}

/** What a program of the system needs to find others, and to say things in the words that we look for. */
export const systemEnvironment: Environment = {
  PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
  LC_ALL: 'C',
}

/** How programs that fetch something reach the network: proxies and certificate authorities, by their usual names. */
export const networkVariables: readonly string[] = [
  ...['HTTP_PROXY', 'HTTPS_PROXY', 'ALL_PROXY', 'NO_PROXY'].flatMap(name => [name, name.toLowerCase()]),
  'SSL_CERT_FILE',
  'SSL_CERT_DIR',
  'NODE_EXTRA_CA_CERTS',
]

/** Of our own environment the variables of these names that are set, to be handed on. */
export function ownVariables(names: readonly string[]): Environment {
  return Object.fromEntries(names.filter(name => name in process.env).map(name => [name, process.env[name]]))
}

/** Starts a program with the environment that is named, and no other. That it could not be started is its `error` event. */
export function startProcess(
  program: string,
  args: readonly string[],
  { env = {}, ...options }: StartOptions = {},
): children.ChildProcess {
  return children.spawn(program, args, { ...options, env: { ...env } })
}

/**
 * Runs a program to its end, with the environment that is named and no other; resolves to what it said, 1 MiB at most. Rejects with
 * an Error that carries `code`, `stdout` and `stderr` when it ends with another code than 0.
 */
export function runProcess(
  program: string,
  args: readonly string[],
  { env = {}, ...options }: ChildOptions = {},
): Promise<{ stdout: string; stderr: string }> {
  return new Promise((resolve, reject) => {
    children.execFile(program, args, { ...options, env: { ...env }, encoding: 'utf8' }, (error, stdout, stderr) => {
      if (error) reject(Object.assign(error, { stdout, stderr }))
      else resolve({ stdout, stderr })
    })
  })
}

/**
 * What a started program says until it ends, as far as its output and errors are pipes, and the code that it ends with: 1 when a signal
 * ended it. Rejects when it could not be started.
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

/** Runs a program to its end while nothing else of this process goes on. Throws when it ends with another code than 0. */
export function runProcessNow(
  program: string,
  args: readonly string[],
  { env = {}, ...options }: ChildOptions = {},
): void {
  children.execFileSync(program, args, { ...options, env: { ...env }, stdio: 'ignore' })
}
