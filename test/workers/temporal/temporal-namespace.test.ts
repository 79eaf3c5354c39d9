import { Client, Connection } from '@temporalio/client'
import { NativeConnection, Worker } from '@temporalio/worker'
import test from 'ava'
import { unpolled } from '../../../workers/poller-health.ts'
import { prepareNamespace } from '../../../workers/temporal/temporal-namespace.ts'
import { testTemporal } from '../../kit/servers/temporal.ts'

const temporal = testTemporal()
const namespace = `berth-setup-${process.pid}`

test.serial('a new namespace gets its search attributes, and repeating that succeeds', async t => {
  const connection = await Connection.connect({ address: (await temporal).address })
  t.teardown(() => connection.close())
  await prepareNamespace(connection, namespace)
  await prepareNamespace(connection, namespace)
  const { customAttributes } = await connection.operatorService.listSearchAttributes({ namespace })
  for (const name of ['AppId', 'OwnerId', 'HostId', 'OperationKind', 'DeploymentId', 'Hostname'])
    t.true(name in customAttributes!, name)
})

test.serial('a queue is healthy only while a worker polls it', async t => {
  const { address } = await temporal
  const connection = await Connection.connect({ address })
  const native = await NativeConnection.connect({ address })
  t.teardown(async () => {
    await connection.close()
    await native.close()
  })
  const client = new Client({ connection, namespace })
  t.deepEqual(await unpolled(client, ['nobody', 'somebody']), ['nobody', 'somebody'])
  const activities = { async nothing() {} }
  const worker = await Worker.create({ connection: native, namespace, taskQueue: 'somebody', activities })
  await worker.runUntil(async () => {
    const silent = () => unpolled(client, ['nobody', 'somebody'])
    for (let attempt = 0; attempt < 600 && (await silent()).length > 1; attempt++)
      await new Promise(resolve => setTimeout(resolve, 50))
    t.deepEqual(await silent(), ['nobody'], 'it says which one')
  })
})
