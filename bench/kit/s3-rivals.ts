import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { unusedPort } from '../../cli/installation/ports.ts'
import { accepts } from '../../cli/services/proxy.ts'
import { cacheFolder } from '../../cli/services/temporal-binary.ts'
import { type ChildProcess, networkVariables, ownVariables, runProcess, startProcess } from '../../lib/child-process.ts'

/** Another S3 server of one machine that keeps objects as files. */
export interface Rival {
  name: string
  version: string
  /** What it has synced when it answers an upload, as it is by default: its calls to sync, read with strace. */
  syncs: string
  /** The program, built into the cache of the bench; without it the package of this name is a development dependency. */
  goModule?: string
  args(folder: string, port: number): string[]
  env?: Record<string, string>
  /** Access key id and secret. */
  pair: readonly [string, string]
  /** Of Node, for one that runs in it. */
  flags?: readonly string[]
  /** What it adds to the name of an object's file; null where an empty file is not an object. */
  suffix: string | null
}

const pair = ['benchbench', 'benchbenchbench'] as const

export const rivals: readonly Rival[] = [
  {
    name: 'versitygw',
    version: 'v1.8.0',
    syncs: 'nothing',
    goModule: 'github.com/versity/versitygw/cmd/versitygw',
    // Without --keep-alive it closes every connection after one answer; without --quiet it prints every request.
    args: (folder, port) => ['--port', `127.0.0.1:${port}`, '--keep-alive', '--quiet', 'posix', folder],
    env: { ROOT_ACCESS_KEY: pair[0], ROOT_SECRET_KEY: pair[1] },
    pair,
    suffix: '',
  },
  {
    name: 'minio',
    version: 'v0.0.0-20260212201848-7aac2a2c5b7c',
    syncs: 'the contents of every file, but not its name in its folder',
    goModule: 'github.com/minio/minio',
    args: (folder, port) => ['server', '--quiet', '--address', `127.0.0.1:${port}`, folder],
    env: { MINIO_ROOT_USER: pair[0], MINIO_ROOT_PASSWORD: pair[1], MINIO_BROWSER: 'off', MINIO_UPDATE: 'off' },
    pair,
    suffix: null,
  },
  {
    name: 'rclone',
    version: 'v1.75.1',
    syncs: 'nothing',
    goModule: 'github.com/rclone/rclone',
    args: (folder, port) => ['serve', 's3', folder, '--addr', `127.0.0.1:${port}`, '--auth-key', pair.join(',')],
    pair,
    suffix: '',
  },
  {
    name: 's3rver',
    version: '3.7.1',
    syncs: 'nothing',
    args: (folder, port) => ['-d', folder, '-a', '127.0.0.1', '-p', String(port), '--silent', '--no-vhost-buckets'],
    pair: ['S3RVER', 'S3RVER'],
    // It encrypts the mark of the next page with an algorithm that OpenSSL has retired.
    flags: ['--openssl-legacy-provider'],
    suffix: '._S3rver_object',
  },
]

const startSeconds = 30
/** The variables that say where Go finds and keeps things. */
const ownNames = [
  ...['PATH', 'HOME', 'TMPDIR', 'XDG_CACHE_HOME', 'XDG_CONFIG_HOME', 'GOPATH', 'GOROOT', 'GOENV', 'GOFLAGS'],
  ...['GOTOOLCHAIN', 'GOCACHE', 'GOMODCACHE', 'GOPROXY', 'GOPRIVATE', 'GOSUMDB', 'GONOSUMDB'],
]

/** Starts a rival in an empty folder, on loopback. Builds it first if it is not in the cache, which takes minutes. */
export async function startRival(rival: Rival, folder: string): Promise<{ child: ChildProcess; url: string }> {
  const [program, ...first] = rival.goModule
    ? [await built(rival)]
    : [process.execPath, ...(rival.flags ?? []), packaged(rival.name)]
  mkdirSync(folder, { recursive: true })
  const port = await unusedPort()
  // Its settings and caches stay in the folder as well.
  const env = { PATH: process.env.PATH, HOME: dirname(folder), ...rival.env }
  const child = startProcess(program!, [...first, ...rival.args(folder, port)], {
    env,
    stdio: 'ignore',
  })
  let ended = ''
  child.once('error', error => {
    ended = error.message
  })
  child.once('exit', code => {
    ended ||= `it ended with code ${code} before it listened`
  })
  for (let tries = startSeconds * 10; !(await listens(port)); tries--) {
    if (ended) throw new Error(ended)
    if (tries === 0) {
      child.kill('SIGKILL')
      throw new Error(`it did not listen within ${startSeconds} s`)
    }
    await sleep(100)
  }
  return { child, url: `http://127.0.0.1:${port}` }
}

const listens = (port: number): Promise<boolean> =>
  accepts('127.0.0.1', port).then(
    () => true,
    () => false,
  )

/** Not a dependency of Berth: the Go tools fetch and compile it. */
async function built({ name, version, goModule }: Rival): Promise<string> {
  const folder = join(cacheFolder(), 'bench', `${name}-${version}`)
  const file = join(folder, name)
  if (existsSync(file)) return file
  console.error(`${name}: go install ${goModule}@${version} into ${folder}; this takes minutes ...`)
  const env = {
    ...ownVariables([...ownNames, ...networkVariables]),
    GOBIN: folder,
    CGO_ENABLED: '0',
  }
  await runProcess('nice', ['-n', '15', 'go', 'install', '-trimpath', `${goModule}@${version}`], { env })
  return file
}

function packaged(name: string): string {
  const require = createRequire(import.meta.url)
  return join(dirname(require.resolve(`${name}/package.json`)), 'bin', `${name}.js`)
}

/**
 * Fills the folder of a bucket with empty objects `folder0/file1.txt` and so on, a thousand folders. Returns why it has not, if it has
 * not: the bucket is of no use then.
 */
export function seedFiles({ suffix }: Rival, bucket: string, objects: number, seconds: number): string | undefined {
  if (suffix === null) return 'an empty file is not an object there, and that many uploads take too long'
  const until = Date.now() + seconds * 1000
  const folders = Math.min(1000, objects)
  for (let n = 0; n < folders; n++) {
    mkdirSync(`${bucket}/folder${n}`)
    for (let file = n; file < objects; file += folders)
      writeFileSync(`${bucket}/folder${n}/file${file}.txt${suffix}`, '', { flag: 'wx' })
    if (Date.now() > until) return `making ${objects} files takes longer than ${seconds} s`
  }
}
