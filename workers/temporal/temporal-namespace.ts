import type { Connection } from '@temporalio/client'
import { searchAttributes } from '../../workflows/attributes.ts'

const retentionSeconds = 7 * 24 * 3600
const keyword = 2 // IndexedValueType of Temporal's API
const alreadyExists = 6 // gRPC status

/** Creates the namespace and the attributes that operators search by, if they are missing. Rejects when Temporal does not answer. */
export async function prepareNamespace(connection: Connection, namespace: string): Promise<void> {
  await connection.workflowService
    .registerNamespace({ namespace, workflowExecutionRetentionPeriod: { seconds: retentionSeconds as never } })
    .catch(ignoreIfExists)
  const names = Object.values(searchAttributes).map(({ name }) => name)
  // It takes a moment until all parts of the server know a new namespace.
  for (let attempt = 1; ; attempt++) {
    try {
      const { customAttributes = {} } = await connection.operatorService.listSearchAttributes({ namespace })
      const missing = names.filter(name => !(name in (customAttributes ?? {})))
      if (missing.length === 0) return
      await connection.operatorService
        .addSearchAttributes({
          namespace,
          searchAttributes: Object.fromEntries(missing.map(name => [name, keyword])),
        })
        .catch(ignoreIfExists)
    } catch (error) {
      if (attempt === 30) throw error
    }
    await new Promise(resolve => setTimeout(resolve, 500))
  }
}

function ignoreIfExists(error: unknown): void {
  if ((error as { code?: number }).code !== alreadyExists) throw error
}
