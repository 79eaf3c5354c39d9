import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { networkVariables, ownVariables, runProcess, startProcess, systemEnvironment } from '../../lib/child-process.ts'
import { type Say, step } from '../terminal/terminal.ts'
import { findProgram, installPackages, MissingPart } from './system-packages.ts'
import { cacheFolder, removeUnfinished } from './temporal-binary.ts'

/** Clients of S3 that tests run: of each the program, with the first arguments. */
export interface S3Programs {
  /** Has boto3. */
  python: string[]
  aws: string[]
  s3cmd: string[]
  rclone: string[]
  restic: string[]
}

/**
 * boto3, the AWS CLI and s3cmd with everything that they import, so that every machine has the same. Since 1.36 and 1.37 the first two
 * send checksums in trailers unless they are told not to.
 */
const pythonPackages = [
  ...['awscli==1.46.3', 'boto3==1.44.8', 'botocore==1.44.8', 's3transfer==0.19.3', 's3cmd==2.4.0'],
  ...['colorama==0.4.6', 'docutils==0.19', 'jmespath==1.1.0', 'pyasn1==0.6.5', 'python-dateutil==2.9.0.post0'],
  ...['python-magic==0.4.27', 'PyYAML==6.0.4', 'rsa==4.7.2', 'six==1.17.0', 'urllib3==2.8.0'],
]

/** The first Python in which these packages run, if it can also create a folder for them. */
const suits = 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 10))'

/** Another list of packages is another folder, so that checkouts with different lists do not replace each other's. */
function pythonFolder(): string {
  const digest = createHash('sha256').update(pythonPackages.join(' ')).digest('hex').slice(0, 12)
  return join(cacheFolder(), `s3-programs-${digest}`)
}

/** Whether a test run needs the S3 programs: a whole run does, and one of which a file or folder is theirs. */
export const needsS3Programs = (files: readonly string[]): boolean =>
  files.length === 0 || files.some(file => file.includes('s3-clients') || /^(\.\/)?test(\/?|\/\*.*)$/.test(file))

/** The S3 programs on this machine. Throws MissingPart if one is missing. */
export function findS3Programs(): S3Programs {
  const folder = pythonFolder()
  const python = join(folder, 'bin/python')
  const [rclone, restic] = ['rclone', 'restic'].map(name => findProgram(name, process.env.PATH))
  if (!existsSync(python) || !rclone || !restic)
    throw new MissingPart('The S3 programs are missing. Install them with:  ./berth test test/s3-clients/*.test.ts')
  // Scripts contain the path at which they were installed, before the folder had its name, so Python runs them.
  const s3cmd = [python, join(folder, 'bin/s3cmd')]
  return { python: [python], aws: [python, '-m', 'awscli'], s3cmd, rclone: [rclone], restic: [restic] }
}

/** Installs the S3 programs that are missing: Debian's rclone and restic, and the Python packages in the cache. Rejects with MissingPart. */
export async function ensureS3Programs(say: Say): Promise<void> {
  const missing = ['rclone', 'restic'].filter(name => !findProgram(name, process.env.PATH))
  if (missing.length > 0)
    await installPackages({ what: `S3 programs that tests run (${missing.join(', ')})`, packages: missing }, say)
  const folder = pythonFolder()
  if (await runs(join(folder, 'bin/python'), '')) return
  const python = await pythonForPackages(say)
  say(
    'The S3 programs in Python (boto3, AWS CLI, s3cmd) are not on this machine yet; they are installed once and cached.',
  )
  rmSync(folder, { recursive: true, force: true }) // the Python that it was made of was removed
  mkdirSync(cacheFolder(), { recursive: true })
  removeUnfinished(cacheFolder())
  const unfinished = mkdtempSync(join(cacheFolder(), `s3-programs-${process.pid}-`))
  const remove = () => rmSync(unfinished, { recursive: true, force: true })
  process.once('exit', remove)
  try {
    await step(say, 'installing boto3, AWS CLI and s3cmd', () => fill(unfinished, python))
    renameSync(unfinished, folder)
  } catch (error) {
    if (!existsSync(folder)) throw error // otherwise another run was first
  } finally {
    process.off('exit', remove)
    remove()
  }
}

async function pythonForPackages(say: Say): Promise<string> {
  const found = await suitablePython()
  if (found) return found
  await installPackages({ what: 'Python with venv, for S3 programs', packages: ['python3', 'python3-venv'] }, say)
  const installed = await suitablePython()
  if (!installed)
    throw new MissingPart('The S3 programs that tests run need Python 3.10 or newer, with its venv module.')
  return installed
}

async function suitablePython(): Promise<string | null> {
  for (const path of new Set([findProgram('python3', process.env.PATH), findProgram('python3', '')]))
    if (path && (await runs(path, suits))) return path
  return null
}

const ownNames = ['PATH', 'HOME', 'TMPDIR', 'XDG_CACHE_HOME', 'XDG_CONFIG_HOME', 'REQUESTS_CA_BUNDLE']
/** The variables by which pip is told where packages are. */
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

async function fill(folder: string, python: string): Promise<void> {
  await run(python, ['-m', 'venv', folder])
  const quietly = ['--quiet', '--disable-pip-version-check', '--no-input']
  // No package runs code while it is installed, and none brings another one along.
  const exactly = ['--only-binary=:all:', '--no-deps']
  await run(join(folder, 'bin/python'), ['-m', 'pip', 'install', ...quietly, ...exactly, ...pythonPackages])
}

function run(program: string, args: string[]): Promise<void> {
  return new Promise((resolve, reject) => {
    const child = startProcess(program, args, { env: environment(), stdio: ['ignore', 2, 2] })
    const end = () => void child.kill('SIGINT')
    process.once('exit', end)
    child.once('error', reject)
    child.once('exit', code => {
      process.off('exit', end)
      if (code === 0) resolve()
      else
        reject(new MissingPart(`${program} ${args.slice(0, 3).join(' ')} exited with ${code}; see its messages above.`))
    })
  })
}
