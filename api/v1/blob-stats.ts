import { z } from 'zod'
import { readMonthUsage } from '../../db/objects/usage-upkeep.ts'
import { storageBill } from '../../policy/objects/storage-bill.ts'
import { includedBytes } from '../uploads/storage-charge.ts'
import { blobEndpoint } from './blob-endpoint.ts'

const amount = z.number()
const bytes = z.int()
const prices = { storagePrice: amount, objectsPrice: amount, totalEstimate: amount }

/** Contract 7.41; the last five fields repeat the first ones, flattened, for older clients. */
export const getBlobStats = blobEndpoint({
  name: 'blob.stats',
  method: 'GET',
  path: '/v1/account/stats',
  summary: 'Show how much is stored and what it would cost',
  auth: { scope: 'blob:read' },
  response: z.object({
    usage: z.object({ objects: z.int(), storage: bytes }),
    plan: z.object({ included: bytes }),
    billing: z.object({ extraStorage: bytes, ...prices }),
    month: z.object({ days: z.int(), average_storage: amount }),
    objects: z.int(),
    size: bytes,
    ...prices,
  }),
  async handle({ caller }, { db, config, blobUsage }) {
    const { id } = caller.user
    const { objects, storage, days, averageStorage } = await blobUsage.of(id, () => readMonthUsage(db, id))
    const included = includedBytes(caller)
    const billing = storageBill({ objects, averageStorage }, included, config.blob.prices)
    const { storagePrice, objectsPrice, totalEstimate } = billing
    return {
      usage: { objects, storage },
      plan: { included },
      billing,
      month: { days, average_storage: Math.round(averageStorage) },
      objects,
      size: storage,
      storagePrice,
      objectsPrice,
      totalEstimate,
    }
  },
})
