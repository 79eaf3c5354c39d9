import { GiB } from '../../lib/bytes.ts'
import type { BlobPrices } from './blob-settings.ts'

/** The price of an account's storage in a month, in the operator's currency. */
export interface StorageBill {
  /** Average bytes beyond what the plan includes, in the month so far. */
  extraStorage: number
  storagePrice: number
  objectsPrice: number
  totalEstimate: number
}

/** The bill of the month so far, for display: Berth charges nothing. */
export function storageBill(
  usage: { objects: number; averageStorage: number },
  includedBytes: number,
  prices: BlobPrices,
): StorageBill {
  const extraStorage = Math.max(0, Math.round(usage.averageStorage - includedBytes))
  const storagePrice = cents((extraStorage / GiB) * prices.perExtraGb)
  const objectsPrice = cents((usage.objects / 1000) * prices.perThousandObjects)
  return { extraStorage, storagePrice, objectsPrice, totalEstimate: cents(storagePrice + objectsPrice) }
}

const cents = (amount: number): number => Math.round(amount * 100) / 100
