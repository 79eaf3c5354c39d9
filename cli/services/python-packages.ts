import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { networkVariables, ownVariables, runProcess, systemEnvironment } from '../../lib/child-process.ts'
import { type Say, step } from '../terminal/terminal.ts'
import { findProgram, installPackages, MissingPart, runInstaller } from './system-packages.ts'
import { cacheFolder, removeUnfinished } from './temporal-binary.ts'

/** Packages in a Python folder of the cache. */
export interface PythonPackages {
  /** The folder's name begins with it. */
  name: 's3-programs' | 'database-drivers' | 'openai-client' | 'toy-model'
  /** All of them, with what they import, as lines of pip's: `boto3==1.44.8`, or with ` --hash=sha256:<hex>` behind it. */
  packages: readonly string[]
  /** What is in it, in words. */
  what: string
  /** The first Python 3 in which they run; default: 3.10. */
  minorVersion?: number
}

/** Succeeds in a Python in which packages run, if it can also create a folder for them. */
const suits = (minorVersion: number) => `import ensurepip, sys, venv; sys.exit(sys.version_info < (3, ${minorVersion}))`

export function pythonFolder({ name, packages }: PythonPackages): string {
  return listFolder(name, packages.join(' '))
}

/** A folder of the cache for a list of packages. Another list has another folder, so that checkouts with different lists do not replace each other's. */
export function listFolder(name: string, list: string): string {
  return join(cacheFolder(), `${name}-${createHash('sha256').update(list).digest('hex').slice(0, 12)}`)
}

/** Installs the packages in the cache unless they are there. Rejects with MissingPart. */
export async function ensurePythonPackages(wanted: PythonPackages, say: Say): Promise<void> {
  const folder = pythonFolder(wanted)
  if (await runs(join(folder, 'bin/python'), '')) return
  const python = await pythonForPackages(wanted, say)
  say(notYet(wanted.what))
  await fillCache(folder, wanted, unfinished => fill(unfinished, python, wanted.packages), say)
}

export const notYet = (what: string): string => `Not on this machine yet, and installed once into a cache: ${what}.`

/** Fills a folder of the cache, which is there as a whole or not at all. One that is there does not work, and is replaced. */
export async function fillCache(
  folder: string,
  { name, what }: Pick<PythonPackages, 'what'> & { name: string },
  fill: (unfinished: string) => Promise<void>,
  say: Say,
): Promise<void> {
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(cacheFolder(), { recursive: true })
  removeUnfinished(cacheFolder())
  const unfinished = mkdtempSync(join(cacheFolder(), `${name}-${process.pid}-`))
  const remove = () => rmSync(unfinished, { recursive: true, force: true })
  process.once('exit', remove)
  try {
    await step(say, `installing ${what}`, () => fill(unfinished))
    renameSync(unfinished, folder)
  } catch (error) {
    if (!existsSync(folder)) throw error // otherwise another run was first
  } finally {
    process.off('exit', remove)
    remove()
  }
}

async function pythonForPackages({ what, minorVersion = 10 }: PythonPackages, say: Say): Promise<string> {
  const python = await suitablePython(minorVersion)
  if (python) return python
  await installPackages({ what: `Python with venv, for ${what}`, packages: ['python3', 'python3-venv'] }, say)
  const installed = await suitablePython(minorVersion)
  if (!installed)
    throw new MissingPart(
      `Python 3.${minorVersion} or newer, with its venv module, is missing; it is needed for ${what}.`,
    )
  return installed
}

async function suitablePython(minorVersion: number): Promise<string | null> {
  for (const path of new Set([findProgram('python3', process.env.PATH), findProgram('python3', '')]))
    if (path && (await runs(path, suits(minorVersion)))) return path
  return null
}

const ownNames = ['PATH', 'HOME', 'TMPDIR', 'XDG_CACHE_HOME', 'XDG_CONFIG_HOME', 'REQUESTS_CA_BUNDLE']
/** The variables that set where pip finds packages. */
const pipNames = ['CERT', 'CONFIG_FILE', 'DEFAULT_TIMEOUT', 'EXTRA_INDEX_URL', 'FIND_LINKS', 'INDEX_URL', 'NO_INDEX']
const environment = () => ({
  ...systemEnvironment,
  ...ownVariables([...networkVariables, ...ownNames, ...pipNames.map(name => `PIP_${name}`)]),
})

const runs = (python: string, code: string): Promise<boolean> =>
  runProcess(python, ['-c', code], { env: environment() }).then(
    () => true,
    () => false,
  )

async function fill(folder: string, python: string, packages: readonly string[]): Promise<void> {
  await run(python, ['-m', 'venv', folder])
  const quietly = ['--quiet', '--disable-pip-version-check', '--no-input']
  // No package runs code while it is installed, and none brings another one along.
  const exactly = ['--only-binary=:all:', '--no-deps']
  const list = join(folder, 'requirements.txt')
  writeFileSync(list, `${packages.join('\n')}\n`) // digests are accepted in a file only
  await run(join(folder, 'bin/python'), ['-m', 'pip', 'install', ...quietly, ...exactly, '-r', list])
}

async function run(program: string, args: string[]): Promise<void> {
  const code = await runInstaller(program, args, environment())
  if (code === 0) return
  throw new MissingPart(`${program} ${args.slice(0, 3).join(' ')} exited with ${code}; see its messages above.`)
}
