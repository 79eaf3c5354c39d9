import { accessSync, constants, existsSync, rmSync, writeFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { KeyedLock } from '../../lib/async/keyed-lock.ts'
import { networkVariables, ownVariables, startProcess, systemEnvironment } from '../../lib/child-process.ts'
import type { Say } from '../terminal/terminal.ts'

/** A part is not on this machine; the message names it and the command that installs it. */
export class MissingPart extends Error {
  override name = 'MissingPart'
}

export interface SystemPart {
  /** In words, for example `the Docker engine`. */
  what: string
  packages: string[]
  /** For packages that start a server of their own when installed; we start ours ourselves. */
  keepStopped?: boolean
}

/** The path of a program on the PATH or where Debian installs servers; null when there is none. */
export function findProgram(name: string, path: string | undefined): string | null {
  const folders = [
    ...(path ?? '').split(delimiter),
    '/usr/local/sbin',
    '/usr/local/bin',
    '/usr/sbin',
    '/usr/bin',
    '/sbin',
    '/bin',
  ]
  return folders.map(folder => join(folder, name)).find(isExecutable) ?? null
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}

export const isRoot = (): boolean => process.getuid?.() === 0

const aptLock = new KeyedLock()

/** Announces and installs distribution packages. Without root or apt it throws `MissingPart` with the command to run. */
export function installPackages(part: SystemPart, say: Say): Promise<void> {
  // One at a time: dpkg has a lock, and parts are prepared concurrently.
  return aptLock.run('', () => installNow(part, say))
}

async function installNow({ what, packages, keepStopped }: SystemPart, say: Say): Promise<void> {
  const line = `apt-get install -y --no-install-recommends ${packages.join(' ')}`
  const aptGet = findProgram('apt-get', process.env.PATH)
  if (!aptGet)
    throw new MissingPart(
      `${what} is missing. Install it with the packages of your distribution (names in Debian: ${packages.join(' ')}).`,
    )
  if (!isRoot()) throw new MissingPart(`${what} is missing. Install it with:  sudo ${line}`)
  say(`${what} is missing; installing it:  ${line}`)
  const restore = keepStopped ? forbidServiceStarts() : () => {}
  try {
    if ((await runApt(aptGet, packages)) === 0) return
    say('  refreshing the package lists first ...')
    await runInstaller(aptGet, ['update', '-q'], aptEnvironment())
    const code = await runApt(aptGet, packages)
    if (code !== 0) throw new MissingPart(`${what} could not be installed (apt-get exited with ${code}). Try:  ${line}`)
  } finally {
    restore()
  }
}

/** Waits up to 300 s for another installation, such as that of a second start. */
const waitForDpkg = ['-o', 'DPkg::Lock::Timeout=300']

function runApt(aptGet: string, packages: string[]): Promise<number> {
  const args = ['install', '-y', '-q', '--no-install-recommends', ...waitForDpkg, ...packages]
  return runInstaller(aptGet, args, aptEnvironment())
}

const aptEnvironment = () => ({
  ...systemEnvironment,
  ...ownVariables([...networkVariables, 'PATH', 'HOME', 'TMPDIR', 'APT_CONFIG']),
  DEBIAN_FRONTEND: 'noninteractive',
})

/** Runs an installer; resolves to its exit code. The output is progress, so it goes to stderr. */
export function runInstaller(
  command: string,
  args: readonly string[],
  env: Record<string, string | undefined>,
): Promise<number> {
  return new Promise((resolve, reject) => {
    const child = startProcess(command, args, { stdio: ['ignore', 2, 2], env })
    // Otherwise it would keep running alongside the next start, for minutes or with dpkg's lock.
    const end = () => void child.kill('SIGINT')
    process.once('exit', end)
    child.once('error', reject)
    child.once('exit', code => {
      process.off('exit', end)
      resolve(code ?? 1)
    })
  })
}

/** Debian's own way to install a server without starting it. An existing policy is left unchanged. */
function forbidServiceStarts(): () => void {
  const policy = '/usr/sbin/policy-rc.d'
  if (existsSync(policy)) return () => {}
  writeFileSync(policy, '#!/bin/sh\nexit 101\n', { mode: 0o755 })
  return () => rmSync(policy, { force: true })
}
