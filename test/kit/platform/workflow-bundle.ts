import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { bundleWorkflowCode } from '@temporalio/worker'
import { checkout } from '../command.ts'

/** The workflow bundle that `./berth test` has built, or one that is built in `folder` now, so that not every worker process of a test builds it. */
export async function workflowBundle(folder: string): Promise<string> {
  const { TEST_WORKFLOW_BUNDLE: made } = process.env
  if (made) return made
  const path = join(folder, 'workflows.bundle.js')
  const silent = { trace() {}, debug() {}, info() {}, warn() {}, error() {}, log() {} }
  const { code } = await bundleWorkflowCode({ workflowsPath: join(checkout, 'workflows/index.ts'), logger: silent })
  await writeFile(path, code)
  return path
}
