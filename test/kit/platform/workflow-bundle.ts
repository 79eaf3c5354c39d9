import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { bundleWorkflowCode } from '@temporalio/worker'
import { checkout } from '../command.ts'

/** Bundles the workflows once into `folder`, so that not every worker process of a test has to. Resolves to the file. */
export async function workflowBundle(folder: string): Promise<string> {
  const path = join(folder, 'workflows.bundle.js')
  const silent = { trace() {}, debug() {}, info() {}, warn() {}, error() {}, log() {} }
  const { code } = await bundleWorkflowCode({ workflowsPath: join(checkout, 'workflows/index.ts'), logger: silent })
  await writeFile(path, code)
  return path
}
