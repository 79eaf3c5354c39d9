import { defineSearchAttributeKey, type SearchAttributeUpdatePair } from '@temporalio/common'

/** Attributes by which operators can search runs. The embedded server registers the same names as keywords. */
export const searchAttributes = {
  appId: defineSearchAttributeKey('AppId', 'KEYWORD'),
  ownerId: defineSearchAttributeKey('OwnerId', 'KEYWORD'),
  hostname: defineSearchAttributeKey('Hostname', 'KEYWORD'),
  hostId: defineSearchAttributeKey('HostId', 'KEYWORD'),
  operationKind: defineSearchAttributeKey('OperationKind', 'KEYWORD'),
  deploymentId: defineSearchAttributeKey('DeploymentId', 'KEYWORD'),
}

/** Pairs for the given values; null clears. */
export function attributes(
  values: Partial<Record<keyof typeof searchAttributes, string | null>>,
): SearchAttributeUpdatePair[] {
  return Object.entries(values).map(([name, value]) => ({
    key: searchAttributes[name as keyof typeof searchAttributes],
    value: value ?? null,
  })) as SearchAttributeUpdatePair[]
}
