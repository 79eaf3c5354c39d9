import test from 'ava'
import { actors } from '../actors/api.ts'
import { type Entry, startEntry } from '../platform/entry.ts'
import { type PlatformOptions, type TestPlatform, testPlatform } from '../platform/platform.ts'
import { workflowBundle } from '../platform/workflow-bundle.ts'

/**
 * Call it once at the top level of a test file: a platform whose API, worker and host `a` are processes of their own, as an operator
 * runs them, so that what is measured is not this process. Its actors speak to that API.
 */
export async function platformApart(own: Record<string, string>, options: PlatformOptions = {}): Promise<TestPlatform> {
  const running: Entry[] = []
  // Declared before the platform's own hook: a running host would bring back what is removed.
  test.serial.after.always('end the processes', async () => {
    await Promise.all(running.map(entry => entry.kill('SIGKILL')))
  })
  const platform = await testPlatform({ ...options, worker: false, hosts: {} })
  const { base } = platform
  base.settings.WORKFLOW_BUNDLE = await workflowBundle(base.folder)
  platform.clearLater('a')
  const worker = startEntry('worker', base.settings)
  const host = startEntry('host', platform.hostSettings('a', own))
  running.push(worker, host)
  const { api, url } = await platform.startApiProcess()
  running.push(api)
  await Promise.all([worker.ready, host.ready])
  platform.api = { ...platform.api, url, as: actors(url).as }
  return platform
}
