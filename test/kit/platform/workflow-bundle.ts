import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { bundleWorkflowCode } from '@temporalio/worker'
import { checkout } from '../command.ts'

/** The bundle of workflows that `./berth test` has made, or one that is made in `folder` now, so that not every worker process of a test has to. */
export async function workflowBundle(folder: string): Promise<string> {
  const { TEST_WORKFLOW_BUNDLE: made } = process.env
  if (made) return made
  const path = join(folder, 'workflows.bundle.js')
  const silent = { trace() {}, debug() {}, info() {}, warn() {}, error() {}, log() {} }
  const { code } = await bundleWorkflowCode({ workflowsPath: join(checkout, 'workflows/index.ts'), logger: silent })
  await writeFile(path, code)
  return path
}
