import { existsSync } from 'node:fs'
import { join } from 'node:path'
import test, { type ExecutionContext } from 'ava'
import { buildContainerName } from '../../../activities/containers/spec.ts'
import type { AppHostOptions } from '../../../activities/hosts/app-host-options.ts'
import { installPrepared } from '../../../activities/installs/isolated.ts'
import { type Prepared, releaseFolders } from '../../../activities/releases/files.ts'
import type { Release } from '../../../activities/releases/release.ts'
import type { InstallInputs } from '../../../policy/runtimes/runtime.ts'
import { withToolFolders } from '../../../policy/runtimes/tool-folders.ts'
import { runtimes } from '../../../policy/runtimes.ts'
import { FakeContainerHost } from '../../kit/fakes/container-host.ts'
import { lay, ownFolder } from '../../kit/folders.ts'

const python = { language: 'python', runtimeVersion: '3.11' } as const
const go = { language: 'go', runtimeVersion: '1.24' } as const
const inputs = { files: ['requirements.txt'], isPinned: false, isShownAfter: true } as Extract<
  InstallInputs,
  { isPinned: boolean }
>

/** A release to install, at a host whose engine is in memory: `run` installs it, and `calls` are those of the engine. */
function release(t: ExecutionContext, runtime: Pick<Release, 'language' | 'runtimeVersion'>, found: () => boolean) {
  const folders = releaseFolders(ownFolder(t), 2)
  lay(folders.source, { 'requirements.txt': 'x' })
  const calls: string[] = []
  class Engine extends FakeContainerHost {
    override async remove(name: string) {
      calls.push(`removes ${name}${found() ? ' before its files' : ''}`)
      await super.remove(name)
    }
    override async runToEnd(...terms: Parameters<FakeContainerHost['runToEnd']>) {
      calls.push('runs')
      return super.runToEnd(...terms)
    }
  }
  const host = {
    engine: new Engine({ ends: { exits: 0 }, [withToolFolders('ends', runtimes.go.toolFolders!)]: { exits: 0 } }),
    traits: { id: 'h1', runtime: 'runc', configNames: [], buildProxy: null, caBundle: null },
    volumes: { flush: async () => {} },
    sharedUid: process.getuid!(),
    snapshots: {},
  } as unknown as AppHostOptions
  const owned = { appId: 'a', ownerId: 'o', number: 2, uid: 10_777, deploymentId: null, ramMb: 256, reservedMb: 256 }
  const its = { ...owned, cpus: 1, ...runtime } as Release
  const plan: Prepared = { install: null, dependenciesOf: null, isClean: false }
  const run = (install: string, more: Partial<Prepared> = {}, seconds?: number) =>
    installPrepared(host, its, folders, { ...plan, ...more, install }, AbortSignal.timeout(60_000), seconds)
  return { folders, calls, run, name: buildContainerName(its) }
}

test('a step that needs all its time alone has failed, and does not begin again', async t => {
  const { calls, run } = release(t, python, () => false)
  await t.throwsAsync(run('hangs', { inputs }, 1), { message: 'Installing the dependencies took longer than 1 s.' })
  t.is(calls.filter(call => call === 'runs').length, 1)
})

for (const [name, runtime, left] of [
  ['alone', python, 'install'],
  ['with the cache of its tools', go, 'tools'],
] as const)
  test(`${name}: remains of a killed host are removed before the step runs again, the container first`, async t => {
    const { folders, calls, run, name } = release(t, runtime, () => existsSync(join(folders[left], 'left')))
    lay(folders[left], { left: 'x' })
    const isShown = { ...inputs, isShownAfter: undefined } as typeof inputs
    await run('ends', { inputs: isShown })
    t.is(calls[0], `removes ${name} before its files`)
    t.false(existsSync(join(folders[left], 'left')))
  })

test('remains of a host that was killed after it named the result are removed with the next attempt', async t => {
  for (const runtime of [python, go]) {
    const { folders, calls, run } = release(t, runtime, () => false)
    for (const left of [folders.dependencies, folders.build, folders.install, folders.tools]) lay(left, { a: 'a' })
    await run('ends', { inputs })
    t.false(calls.includes('runs'))
    t.deepEqual([folders.build, folders.install, folders.tools].filter(existsSync), [])
    t.true(existsSync(join(folders.dependencies, 'a')))
  }
})
