/**
 * Every number that a module of policy/ exports, as the contract, PROMISES.md or a decision states it. Written by
 * hand: nothing here may be read from policy/. A module with a number that is not here, and a number here that no module has, fail
 * `constants.test.ts`. Limits, plans, codes and runtimes have tables of their own next to this one.
 */
export const numbersAsAgreed: Record<string, Record<string, unknown>> = {
  // A20, A21: 10 minutes until what nobody confirmed is undone. The decision push-batches.md: 3 s until a push is begun, half a second together.
  'acceptance.ts': {
    acceptance: {
      lookMs: 2000,
      confirmMs: 3000,
      tryMs: 1000,
      againMs: 50,
      undoAfterMs: [0, 2000, 10_000],
      forgottenSeconds: 600,
      push: {
        answerMs: 5000,
        commitMs: 4000,
        beginMs: 3000,
        togetherLockMs: 500,
        lockMs: 2000,
        confirmMs: 4700,
        confirmLockMs: 900,
      },
    },
  },
  // Contract 1.16, F5: 20 keys in 60 s, then 5 minutes. EDGE and API: 100 connections of an address.
  'accounts/address-limits.ts': {
    keyGuessLimit: { keys: 20, withinMs: 60_000, blockMs: 300_000 },
    connectionCaps: { inAll: 2000, perAddress: 100 },
  },
  // F100. The decision push-batches.md says why.
  'git/push-slots.ts': { pushesAtOnce: 64 },
  // Contract 5.21: every 10 s, 5 s, 3 failures in a row, 200 to 399; 16 open checks of an account, 256 of a host.
  'hosts/health-checks.ts': {
    healthChecks: {
      ...{ everySeconds: 10, withinMs: 5000, failures: 3, healthyStatus: { from: 200, to: 399 } },
      ...{ atOnce: 256, perAccount: 16, headerBytes: 16_384, bodyBytes: 65_536, interimAnswers: 8, freshMs: 1000 },
    },
  },
  // H20, H23: 24 hours, 30 days, a tenth of the disk, a quarter, 10,000 entries, 2 GB free. H26: 512 MB, 100,000 files. The decision install-cache.md says why.
  'hosts/installs.ts': {
    installRules: {
      scheme: 1,
      inputBytes: 4_194_304,
      allInputBytes: 33_554_432,
      archives: 50,
      archivePath: 1000,
      unpinnedHours: 24,
      digestSeconds: 120,
      copySeconds: 300,
      slotSeconds: 120,
      unusedDays: 30,
      diskShare: 0.1,
      accountShare: 0.25,
      entries: 10_000,
      packedShares: 8,
      freeBytes: 2_147_483_648,
      wordsLength: 300,
    },
    toolRules: { scheme: 1, folderBytes: 536_870_912, files: 100_000, growth: 0.1 },
    installConcurrency: { waiting: 32, packing: { atOnce: 1, perSubject: 1 }, reading: { atOnce: 2, perSubject: 1 } },
  },
  // E32, E33, E34: a tenth of the disk, 2 GB free, 64 connections, half of 32 archives and of 16 documents at once. The decision package-downloads.md says why.
  'packages/cache-rules.ts': {
    packageCacheRules: {
      diskShare: 0.1,
      freeBytes: 2_147_483_648,
      documentBytes: 16_777_216,
      listBytes: 268_435_456,
      archiveBytes: 536_870_912,
      zip: { outputBytes: 524_288_000, files: 100_000 },
      entries: 100_000,
      links: 200_000,
      pathLength: 2048,
      redirects: 5,
      upstreamSeconds: { connect: 10, silent: 30 },
      archiveSeconds: 600,
      documentSeconds: 20,
      followAfterSeconds: 5,
      abandonedSeconds: 5,
      slotSeconds: 10,
      heldBytes: 65_536,
      connectionsPerContainer: 64,
      clientSeconds: { silent: 60, answer: 900 },
      registries: 8,
      ports: { first: 21_000, count: 4000 },
      uid: 1_999_999_999,
      remembered: 50_000,
      queryAgainSeconds: 600,
      querySeconds: 60,
      openSeconds: 10,
      startSeconds: 120,
      restSeconds: 60,
      warnings: { perMinute: 5, kinds: 200, pathLength: 200, allPerMinute: 60 },
      touchSeconds: 60,
    },
    packageSlots: {
      downloads: { atOnce: 32 },
      documents: { atOnce: 16 },
      reads: { atOnce: 16 },
    },
  },
  // Contract 5.6: MEMORY.
  'apps/app-config.ts': { memoryLimits: { minMb: 256, minWithAddressMb: 512, maxMb: 32_768 } },
  'archives/archive-names.ts': { nameLimits: { segmentBytes: 255, pathBytes: 4096, levels: 128 } },
  // D3: 1 GiB and 20,000 entries.
  'archives/archive-rules.ts': {
    maxConfigBytes: 65_536,
    archiveSlots: { atOnce: 2, perSubject: 1, waitMs: 15_000, inspectSeconds: 60, unpackSeconds: 600, memoryMb: 96 },
    uploadRules: { outputBytes: 1_073_741_824, entries: 20_000, ratio: 100, ratioAfterBytes: 10_485_760 },
    ownRules: {
      outputBytes: Number.MAX_SAFE_INTEGER,
      entries: Number.MAX_SAFE_INTEGER,
      ratio: Number.POSITIVE_INFINITY,
      ratioAfterBytes: Number.MAX_SAFE_INTEGER,
    },
  },
  // Contract 7.30: deletion rules act 24 h after saving. Contract 9.5: sizes and days of a rule.
  'objects/blob-rules.ts': {
    ruleRestSeconds: 86_400,
    deletionDays: { min: 1, max: 3650 },
    usualDeletionDays: 7,
    maxRulesOfAnyTier: 20,
    ruleSizes: { min: 512, max: 10_737_418_240 },
  },
  // Contract 7.37: idle uploads after about 24 h. A61: strays after 7 days.
  'objects/blob-upkeep.ts': {
    upkeep: {
      reclaim: { everySeconds: 600 },
      expiry: { everySeconds: 120 },
      rules: { everySeconds: 900 },
      sweep: { everySeconds: 120 },
      fold: { everySeconds: 300 },
      sample: { everySeconds: 3600 },
      recount: { everySeconds: 21_600 },
    },
    upkeepTimes: {
      ...{ idleSeconds: 86_400, drawnSeconds: 604_800, unreferencedSeconds: 60, downloadSeconds: 3600 },
      retrySeconds: 600,
    },
    drawnAheadSeconds: 21_600,
    heldAllocationSeconds: 7200,
    receiptDays: 90,
    idleReceiptDays: 1,
  },
  'objects/store-limits.ts': {
    storeSyncs: {
      ...{ everyBytes: 33_554_432, smallBytes: 1_048_576 },
      ...{ large: { atOnce: 4, perSubject: 2 }, small: { atOnce: 8, perSubject: 6 }, folders: { atOnce: 8 } },
    },
    storeFloor: { bytes: 1_073_741_824, share: 0.02, lookMs: 1000 },
    // O82
    includedObjects: { always: 1_000, perGb: 100_000 },
  },
  // A mailed code has 8 characters, and `confirmCode` is exactly that long.
  'accounts/mailed-codes.ts': { codeLength: 8 },
  // 64 MB of documents of S3, 16 MB of an account's. Q2: 25 MB of deliveries of one address, network or account. Q3: 64 MB of JSON of an account. Q6: 64 KB. Contract 9.6: 25 MB each. Q21: 1 MB and 30 s alongside a file. Q22: 60 s.
  'body-budgets.ts': {
    bodyBudgets: {
      json: { bytes: 268_435_456, share: 67_108_864 },
      documents: { bytes: 67_108_864, share: 16_777_216 },
      webhooks: { bytes: 104_857_600, share: 26_214_400 },
      gitApp: { bytes: 52_428_800, share: 26_214_400 },
    },
    freeBodyBytes: 1_048_576,
    jsonBodyBytes: { most: 1_048_576, variables: 8_388_608, file: 67_108_864 },
    maxDeliveryBytes: 26_214_400,
    denseJson: { bytes: 65_536, values: 5_000, bytesPerValue: 20, maxValues: 20_000 },
    parsedAtOnceBytes: 262_144,
    smallDeliveryBytes: 65_536,
    maxDeliveryValues: 1_000_000,
    largeDeliveries: { allow: 100, perSeconds: 600 },
    formExtra: { bytes: 1_048_576, seconds: 30 },
    storeSeconds: { afterBody: 60, afterCancel: 5 },
    minPace: { bytesPerSecond: 8192, overSeconds: 10 },
    unsignedDeliveries: { allow: 20, perSeconds: 60 },
  },
  // Addresses for 8 days; 15 minutes; 60 s and 15 minutes; 3 s for a slot, 10 s for an answer; 25 types, 100 addresses, 1000 lines.
  'network/analytics-terms.ts': {
    retainedDays: 8,
    bucketMs: 900_000,
    intake: {
      ...{ everyMs: 2000, sliceBytes: 8_388_608, maxLineBytes: 4_194_304, headBytes: 256 },
      ...{ agents: 20_000, newAgentsPerSecond: 2000, agentsPerDay: 50_000, agentsPerAppAndDay: 5000 },
      addresses: 50_000,
    },
    textParts: 32,
    requestShares: { parts: 32, accountParts: 16, requestBytes: 32 },
    rollups: { rows: 100_000, restRows: 10_000, appRows: 1000, rowsPerSum: 8 },
    textCaps: { agent: 300, path: 1024, query: 1024, referer: 1024, host: 255, contentType: 64, header: 255 },
    engineLimits: { memoryMb: 512, threads: 1, scratchMb: 1024 },
    questionTimes: { slotMs: 3000, answerMs: 10_000 },
    rememberedAnswers: { freshSeconds: 60, busySeconds: 900, maxBytes: 67_108_864 },
    busyRetrySeconds: 5,
    visits: { fromStatus: 200, toStatus: 399 },
    breakdowns: {
      visits: { types: 1 },
      ...{ countries: { types: 25 }, devices: { types: 25 }, os: { types: 25 }, browsers: { types: 25 } },
      ...{ protocols: { types: 25 }, methods: { types: 25 }, paths: { types: 25 }, referers: { types: 25 } },
      ...{ providers: { types: 25 }, ips: { types: 100 }, status_codes: { types: 1000 }, bots: { types: 100 } },
      content_types: { types: 100 },
    },
    logEntries: 1000,
    rankedPaths: { errors: 25, slowest: 25, fromRequests: 20 },
    rankedPlaces: 25,
  },
  // Contract 4.14, 6.4, 7.41 and 8.7.
  'cached-answers.ts': {
    cachedSeconds: {
      metrics: 150,
      blobStats: 60,
      accountSnapshots: 20,
      deploySources: 300,
      databaseNames: 60,
      dnsRecords: 30,
      serviceStatus: 300,
      serviceTrouble: 15,
    },
  },
  // I7: within 10 minutes.
  'accounts/captcha.ts': { captchaSeconds: 600 },
  'databases/database-steps.ts': {
    databaseSeconds: { serve: 60, load: 10_800, initialise: 60, login: 10, copy: 10_800, script: 60 },
    engineProgress: { cpuPercent: 10, diskMb: 1 },
    neverUsedGeneration: 0,
    // 128 MB of definitions in a host process, 1 GB of a copy.
    comparisonLimits: { definitionBytes: 134_217_728, copyBytes: 1_073_741_824, memberships: 100_000 },
  },
  // Owners are warned again after an hour at the soonest, of memory once it was below 80 %, of disk once it was 5 points below the level.
  'databases/database-warnings.ts': {
    databaseWarnings: {
      memoryEndsBelow: 0.8,
      diskEndsPointsBelow: 0.05,
      onceInHours: 1,
      crashesInDay: 5,
      maxCrashTimes: 20,
      crashOnceInHours: 24,
    },
  },
  // A ballast of 32 MB, looks each 10 s, each second from 90 % on.
  'databases/disk-guard.ts': {
    diskGuard: {
      ballastBytes: 33_554_432,
      startBytes: 25_165_824,
      pieceBytes: 1_048_576,
      maxPieces: 4,
      lookSeconds: 10,
      nearlyFull: 0.9,
      nearlyFullLookSeconds: 1,
      concurrency: 8,
    },
  },
  'databases/certificate-terms.ts': {
    certificateTerms: { days: 397, renewShare: 2 / 3, handoverDays: 30 },
    renewalRules: { everySeconds: 60, atOnce: 10, delaysSeconds: [600, 3600, 21_600, 86_400] },
  },
  'databases/disk-levels.ts': { diskWarnings: { mail: [0.85, 0.95], readOnly: 0.98, writableAgain: 0.95 } },
  'databases/drills.ts': {
    drillRules: { retrySeconds: 86_400, atOnce: 20, lookSeconds: 60, retainedDays: 400, minMemoryMb: 1024 },
    // Z19.
    wayBack: { snapshotHours: 24 },
  },
  // Contract 12.4, 12.26.
  'databases/engine.ts': { maxMemoryMb: 32_768, shareOfAddress: 0.5, spareConnections: { machine: 10, socket: 10 } },
  'databases/mongo.ts': { mongo: { minMemoryMb: 1024, stop: { graceSeconds: 30 } } },
  'databases/mysql.ts': { mysql: { minMemoryMb: 1024, stop: { graceSeconds: 60 } } },
  // Z11, Z22: files of 16 MB after 300 s at most, 16 of them wait; a base backup a day, a minute after a gap at the earliest and 2 in 10 minutes.
  'databases/point-in-time.ts': {
    pointInTimeRules: {
      ...{ fileBytes: 16_777_216, maxFileSeconds: 300, maxWaiting: 16, maxNames: 64, copies: 2, lookSeconds: 5 },
      ...{ roomSeconds: 8, busyLookSeconds: 0.5, gapBackupSeconds: 60 },
      ...{ backupSeconds: 86_400, minBackupSeconds: 600, retry: { firstSeconds: 30, maxSeconds: 900 }, backupMbps: 64 },
      storedPerMemory: 32,
      ...{ maxBackupSeconds: 14_400, newestSeconds: 120, ahead: 4, recoverySeconds: 300 },
    },
  },
  'databases/postgres.ts': { postgres: { minMemoryMb: 1024, stop: { graceSeconds: 30 } } },
  'databases/redis.ts': { redis: { minMemoryMb: 512, stop: { graceSeconds: 30 } } },
  // After 1, 5, 15 and 60 s; at the fifth crash the engine stays down.
  'databases/restarts.ts': {
    restartRules: { delaysSeconds: [1, 5, 15, 60], steadySeconds: 600 },
    returnDelay: { firstSeconds: 5, maxSeconds: 300 },
    maxCrashes: 5,
  },
  // Contract 10.2.
  'errors.ts': { unexpectedStatus: 500 },
  // Certificates of the installation's own authority: 90 days.
  'domains/authority-rules.ts': {
    authorityRules: {
      requestMs: 15_000,
      callMs: 60_000,
      answerBytes: 1_048_576,
      maxChain: 10,
      messageCharacters: 500,
      renewalAgain: { minSeconds: 3600, usualSeconds: 21_600, maxSeconds: 86_400 },
      localDays: 90,
    },
  },
  'domains/name-server-rules.ts': {
    nameServerRules: {
      questionBytes: 1232,
      datagramBytes: 1232,
      textsMs: 100,
      atOnce: 50,
      perNetworkSecond: 50,
      perSecond: 2000,
      connections: 64,
      idleMs: 5000,
      connectionMs: 20_000,
      perConnection: 100,
      ttlSeconds: 1,
    },
  },
  // A question of 1.5 s, twice, 20 at a time and 4 of one account; a probe of 3 s and 1 KB.
  'domains/dns-rules.ts': {
    dnsRules: {
      questionMs: 1500,
      tries: 2,
      deadlineMs: 10_000,
      atOnce: 20,
      perAsker: 4,
      waitMs: 10_000,
      maxRecords: 100,
      maxRecordCharacters: 4096,
      maxChain: 8,
    },
    probeRules: { ms: 3000, bodyBytes: 1024, addresses: 4 },
  },
  // Contract 9.5: parts of 5 to 32 MB, 6 in flight (K3).
  'objects/uploads/chunked.ts': {
    chunkBytes: { min: 5_242_880, max: 33_554_432 },
    partsInFlight: 6,
    maxOpenParts: 70_000,
  },
  // C4: a command has 60 s at a host.
  'apps/command-times.ts': { commandSeconds: { step: 55, route: 8, outcome: 2, min: 5 } },
  'accounts/credential-check.ts': { checkLength: 16 },
  // Y1: 4.25 MB of each deployment, pieces of 64 KB. Q5: a reader holds 256 KB.
  'apps/deployment-logs.ts': {
    deploymentLogs: {
      flushMs: 500,
      pieceBytes: 65_536,
      outputBytes: 4_194_304,
      wholeBytes: 4_456_448,
      sentBytes: 262_144,
      lastCharacters: 2000,
      bytesPerSecond: 2_097_152,
    },
  },
  // Contract 4.20, W2: 10 MB.
  'apps/file-content.ts': { maxFileBytes: 10_485_760, maxBase64Length: 13_981_016 },
  'git/git-connection.ts': { connectionSeconds: 600 },
  // Z16: 8 archives of up to 512 MB on a host: one or two for each engine, while its image is being replaced.
  'hosts/data-templates.ts': { dataTemplates: { maxMb: 512, max: 8, layout: 1 } },
  // P1.
  'hosts/host-lease.ts': { hostLeaseSeconds: 10, renewEveryMs: 1000, sureForMs: 9000 },
  // Y4: 10 gates of an account. Y5: 90 s without progress, 24 s. Y7: 15 minutes. Y9: 2 logs of an account, 6 of all. S15: 2 snapshots.
  'hosts/host-slots.ts': {
    commandSlots: { atOnce: 100, perSubject: 20 },
    gateSlots: { atOnce: 200, perSubject: 10 },
    releaseSlots: { atOnce: 20, perSubject: 5 },
    snapshotsAtOnce: 2,
    logSlots: { atOnce: 6, perSubject: 2 },
    installSeconds: 900,
    tasksAtOnce: 1000,
    commandImageSeconds: 24,
    imagePulls: { atOnce: 3, silentSeconds: 90, seconds: 900 },
  },
  // K*, L4, O8: 60 s. O10: 120 s. S15.
  'leases.ts': {
    leaseSeconds: { liveStream: 60, body: 60, storage: 120, snapshot: 120 },
    storageRenewSeconds: 30,
  },
  // L4, contract 9.5: 5 and 30 live streams, 100 applications. Q5: 10 logs. Contract 9.6: 20 deliveries, then one per 15 s.
  // Contract 9.2: 300 a minute of other addresses. Contract 9.7: 60 requests of a token in 60 s, then 5 minutes.
  'limits.ts': {
    realtimeConnections: { perUser: 5, perApp: 30 },
    followedLogs: { perUser: 10 },
    wholeLogs: { atOnce: 1000, perSubject: 10, waitSeconds: 30 },
    workspaceApplications: 100,
    inviteCodeSeconds: 300,
    webhookBucket: { burst: 20, everySeconds: 15 },
    outsidePerMinute: 300,
    tokenRequests: { allow: 60, perSeconds: 60, blockSeconds: 300 },
  },
  // Contract 7.15: over 2048 characters is INVALID_CONTINUATION_TOKEN.
  'objects/list-cursors.ts': { cursorLength: 2048 },
  // C21: 12 s until it is known, and 0.5 s more.
  // Q20: 12,288 connections of a worker, 3 of 8 for requests of applications.
  'proxy-connections.ts': { proxyConnections: { ofWorker: 12_288, applicationShare: 0.375 } },
  'listening.ts': { listening: { pingEveryMs: 10_000, answerWithinMs: 2000, retryMs: 500 } },
  // M5: 25 times in about 3 days.
  'mail/delivery.ts': {
    mailTries: { firstWaitSeconds: 60, maxWaitSeconds: 14_400, maxAttempts: 25 },
    mailDeadlineMs: 40_000,
    codeMails: { 'sign-in': 600, 'downgrade-code': 600 },
    mailSlots: { all: 4, others: 3, codesPerAccount: 1, othersPerAccount: 2 },
    mailsRetainedDays: 30,
  },
  // M3.
  'apps/memory-alerts.ts': { memoryAlertRules: { share: 0.9, samplesInARow: 3, onceInHours: 24 } },
  // M1, contract 4.14: from 512 MB, 5 minutes, 24 hours, 288 points.
  'apps/metrics.ts': {
    metricRules: { fromMemoryMb: 512, sampleSeconds: 15, pointSeconds: 300, keptHours: 24, maxPoints: 288 },
  },
  // E30: 400 packets a second after 2,000, 100 after 500 with 256 MB; over TCP 8 KB a second after 64 KB.
  'hosts/network-limits.ts': {
    networkLimits: {
      ...{ openConnections: 2000, newPerSecond: 200, newAtOnce: 1000, refusedPorts: [25] },
      inward: { openConnections: 1000, newPerSecond: 50, newAtOnce: 500 },
      ...{ namePacketsPerSecond: 400, namePacketsAtOnce: 2000, nameShareMb: 1024 },
      ...{ nameStreamBytesPerSecond: 8192, nameStreamBytesAtOnce: 65_536 },
    },
  },
  // Contract 7.40: below 7 days only some plans.
  'objects/object-expiry.ts': { shortExpirySeconds: 604_800 },
  // Contract 7.2: 1024 bytes.
  'objects/object-names.ts': { keyBytes: 1024 },
  // Y8: 1 MB/s, 2 MB/s of an account.
  'apps/output-pace.ts': {
    outputPace: {
      bytesPerSecond: 1_048_576,
      accountBytesPerSecond: 2_097_152,
      burstBytes: 4_194_304,
      lineBytes: 100,
    },
  },
  // Y20: 384 MiB of a child, 4 of them, 1 of an account, and no more than 10,000 entries for an event's names.
  'apps/placing-limits.ts': {
    placingLimits: { seconds: 600, memoryBytes: 402_653_184, searched: 10_000, levels: 100 },
    placingConcurrency: { atOnce: 4, perSubject: 2 },
  },
  'apps/overlay.ts': {
    overlayLimits: { entries: 1_000_000, bytes: 68_719_476_736, depth: 250, seconds: 600, memoryBytes: 402_653_184 },
  },
  // A7: 30 s. Contract 1.13: 95 s and 90 s. C3: 5 s. C5: 10 s. Contract 4.15: ping every 15 s, 10 minutes. L5: 1 MB, 20 s. R9: two looks of 15 s.
  // B6, contract 5.11: once in 60 min, after over 60 s. A13: 0.5 s of the 1 s that a revoked key may live. S10: 20 s. Y3: 2 s. A4: an hour.
  'timeouts.ts': {
    // Contract 12.6: 85 s.
    commandTimeouts: { claimMs: 30_000, holdMs: 95_000, creationMs: 85_000, backgroundMs: 90_000 },
    // C2: 503 within 3 s, with connections (2 s) and statements (2.3 s and 0.5 s more) as with a whole admission.
    databaseTimeouts: {
      connectionMs: 2000,
      statementMs: 5000,
      requestStatementMs: 2300,
      answerMs: 500,
      idleTransactionMs: 10_000,
      clientAwayMs: 25_000,
      connectionLifeMs: 60_000, // A62
      admissionMs: 2800,
    },
    unreachableAfterSeconds: 5,
    apiDrainSeconds: 10,
    chatGraceSeconds: 7,
    eventStreams: { pingMs: 15_000, maxMs: 600_000, bufferedBytes: 1_048_576, stalledMs: 20_000, lookMs: 5000 },
    idleReaderMs: { pieces: 30_000, body: 15_000 },
    autorestart: { ranSeconds: 60, everyMinutes: 60 },
    gateProbeMs: 2000,
    gateStarts: 3, // H16
    credentialBelievedMs: 500,
    nameLookupMs: 500,
    snapshotPauseSeconds: 20,
    staleUploadMs: 3_600_000,
    heartbeatMs: 15_000,
    notificationRereadMs: 3000,
  },
  // G5: 3 files of 10 MB.
  'installation/edge-tls.ts': {
    edgeTls: {
      defaultPort: 8443,
      sessionCacheMb: 20,
      certificatesMb: 64,
      parsedPerWorker: 2000,
      maxStreams: 64,
      requestsPerConnection: 1000,
    },
  },
  // E90: 16 MB of errors of applications.
  'installation/process-logs.ts': {
    processLogs: { bytes: 10_485_760, pieces: 3 },
    applicationErrors: { bytes: 16_777_216 },
  },
  // B64: 5 s to 1 hour.
  // E88.
  'hosts/placement.ts': {
    diskPromise: { reserveShare: 0.1, maxReserveMb: 20_480, stepShare: 0.02, minStepMb: 64 },
  },
  'hosts/reconciliation.ts': { bringBackDelay: { firstSeconds: 5, maxSeconds: 3600 } },
  // C22: 3 times.
  'installation/relay.ts': {
    relay: {
      queuedSeconds: 1,
      runningSeconds: 5,
      backoff: { firstSeconds: 2, maxSeconds: 16 },
      stuckSeconds: 30,
      stuckTasks: 3,
    },
  },
  // Contract 9.5. R1: 64 KiB.
  'request-caps.ts': {
    requestCaps: {
      fileBytes: 104_857_600,
      logBytes: 1_048_576,
      folderCharacters: 256,
      objectsListed: 1000,
      objectsUpdated: 50,
      objectsDeleted: 100,
    },
    wholeBodyBytes: 65_536,
    accountCaps: { shares: 1000, appUploads: 16, minFreeMemoryMb: 256, diskPerMemory: 2 },
    appCaps: { waitingDeploys: 20 },
    linkTerms: {
      downloadSeconds: { min: 60, max: 86_400, default: 3600 },
      shareSeconds: { min: 60, max: 2_592_000, default: 86_400 },
      shareDownloads: { min: 1, max: 10_000 },
      sharePasswordCharacters: { min: 8, max: 128 },
      tokenSeconds: { min: 60, max: 3600, default: 900 },
      tokenUses: { min: 1, max: 100, default: 1 },
    },
  },
  // Contract 6.9: deliveries 7 days. Contract 6.12: 100. Contract 6.24: snapshots 30 days. Contract 6.23: 1 h. Contract 1.20, F16: keys 24 h.
  // U8: the newest 20 deployments. U9: 2,000 rows.
  'retention.ts': {
    alwaysRetainedDeployments: 20,
    rowsAtOnce: 2000,
    retentionTimes: {
      auditDays: 90,
      auditResourceCharacters: 1100,
      deliveryDays: 7,
      refusedDeliveries: 100,
      auditedCommands: { objects: 100_000, command: 20_000 },
      endedKeyDays: 90,
      idempotencyHours: 24,
      idempotencyGivenUpMinutes: 5,
      restoreSeconds: 3600,
      snapshotDays: 30,
      failedSnapshotDays: 1,
      replacedVolumeSeconds: 86_400,
      planEndDays: 7,
      downgradeDays: 30,
      uploadDays: 7,
      endedDays: 1,
    },
  },
  // A3: every 1 s. E20: 10 s. P9: 30 s. S7: one a day. U12: 10 minutes. U13: 5 s, 10 s and 60 s.
  'rounds.ts': {
    roundSeconds: {
      relay: 1,
      hostWatch: 5,
      routes: 10,
      everything: 60,
      firewall: 10,
      disks: 30,
      diskPromise: 60,
      databaseImages: 600,
      warmImages: 600,
      databaseImageIds: 15,
      liveStreams: 20,
      refusals: 30,
      installResults: 300,
      packageCache: 60,
      mail: 10,
      planEnds: 15,
      sweep: 60,
      analyticsAccounts: 60,
      schedules: 60,
      domains: 10,
      platformNames: 60,
    },
    automaticSnapshotSeconds: 86_400,
    failuresInARow: 3,
    changesRetainedMinutes: 10,
    snapshotLooks: { atOnce: 100, withoutPlanSeconds: 21_600 },
    owedPurges: { afterSeconds: 15, againSeconds: 600, atOnce: 100 },
    automaticSnapshotRules: { daysAfterPlan: 30, maxRetrySeconds: 21_600, warnDays: 3, tryMinutes: 60 },
  },
  'seal.ts': { firstKeyId: 1 },
  // Contract 4.26.
  'domains/times.ts': {
    domainTimes: {
      looks: [
        { untilMs: 900_000, everyMs: 15_000 },
        { untilMs: 7_200_000, everyMs: 120_000 },
        { untilMs: 86_400_000, everyMs: 600_000 },
        { untilMs: 259_200_000, everyMs: 3_600_000 },
      ],
      dailyMs: 86_400_000,
      lostProofMailMs: 259_200_000,
      refusedOrder: { firstMs: 3_600_000, maxMs: 86_400_000 },
      interruptedOrder: { firstMs: 60_000, maxMs: 900_000 },
      retryAfter: { maxMs: 604_800_000, shareOfRest: 0.125 },
      orderLook: { firstMs: 50, maxTimes: 100 },
    },
  },
  'edge/cache.ts': { proxyCache: { parts: 8, maxFileMb: 64, minFreeMb: 512, lockSeconds: 5 } },
  'edge/names.ts': { maxMembers: 64 },
  'edge/tables.ts': { edgeTables: { settingsMb: 32, pagesMb: 256 } },
  // Contract 4.38.
  'network/app-settings.ts': {
    appSettingsBounds: {
      ...{ pageBytes: 16_384, accountPageBytes: 65_536, networks: 100, requestsPerMinute: 1_000_000 },
      hstsSeconds: 63_072_000,
    },
    defaultAppSettings: { requests_per_minute: 0, hsts: { max_age: 31_536_000 } },
  },
  // Contract 4.31.
  'domains/edges.ts': { edgeRules: { liveSeconds: 25, waitSeconds: 5, serveSeconds: 60 } },
  'domains/order-limits.ts': {
    orderLimits: {
      ...{ perWindow: 250, windowSeconds: 10_800, perDomain: 40, domainWindowSeconds: 604_800 },
      ...{ accountShare: 0.25, shares: { first: 0.6, renewal: 0.8, ending: 1 } },
    },
  },
  'accounts/sessions.ts': { sessionSkewSeconds: 60 },
  'objects/share-visits.ts': { visitSeconds: 86_400 },
  // I1: 10 minutes. J1: 15 mails.
  'accounts/sign-in-mails.ts': { signInSeconds: 600, signInMails: { ofOneNetwork: 5, fresh: 5, max: 15 } },
  // I1: 5 tries. Contract 3.6 and 3.9 to 3.12.
  'accounts/sign-in-terms.ts': {
    signInTerms: { attempts: 5, sessionSeconds: 3600, sessionDays: 30 },
    authorizationTerms: { seconds: 600, intervalSeconds: 10, attempts: 5, graceSeconds: 60, keys: 5, keyDays: 90 },
    downgradeTerms: { seconds: 600, attempts: 20 },
  },
  // S6, contract 6.18: 30 days.
  'apps/snapshot-links.ts': { linkSeconds: 2_592_000 },
  // A61: 7 days.
  'hosts/strays.ts': { strayTerms: { keptDays: 7, atOnce: 3, shareAtOnce: 0.1 } },
  // N6: a week and a day.
  'accounts/suspension.ts': { endNotices: [604_800, 86_400] },
  // H11: reported from the 3rd attempt on.
  'apps/undo-attempts.ts': { showUndoFrom: 3 },
  // Contract 7.38: pins of 2 KB.
  'objects/uploads/upload-tokens.ts': { pinsBytes: 2048 },
  // Signature Version 4: 15 minutes, 7 days.
  's3/s3-signatures.ts': {
    s3Signatures: {
      maxSkewMs: 900_000,
      maxExpiresSeconds: 604_800,
      chunkHeadBytes: 1024,
      trailerBytes: 8192,
      freeChunks: 1000,
      minChunkBytes: 512,
    },
  },
  // As Amazon defines them.
  's3/s3-checksums.ts': { digestBytes: { CRC32: 4, CRC32C: 4, CRC64NVME: 8, SHA1: 20, SHA256: 32 } },
  // Contract 7.46 and 7.52.
  's3/s3-limits.ts': {
    s3Limits: {
      putBytes: 5_368_709_120,
      uploadBytes: 10_737_418_240,
      parts: 10_000,
      minPartBytes: 5_242_880,
      openUploads: 1000,
      pageEntries: 1000,
      deletedKeys: 1000,
      xmlBytes: 2_097_152,
      documentUnitBytes: 65_536,
      formBytes: 20_480,
      form: { files: 1, fields: 100, parts: 110, headerPairs: 100 },
      metadataBytes: 2048,
      headerBytes: 4096,
      tags: 10,
      tagKeyCharacters: 128,
      tagValueCharacters: 256,
      extraBuckets: 100,
    },
  },
  // Contract 3.5: 24 characters.
  'accounts/usernames.ts': { usernameLength: 24 },
  'ai/chat-limits.ts': {
    chatLimits: {
      bodyBytes: 2_097_152,
      messages: 100,
      tools: 32,
      toolCalls: 128,
      maxTemperature: 2,
      seconds: 90,
      slotSeconds: 95,
      minAnswerTokens: 16,
    },
    settling: { pauseMs: 50, maxPauseMs: 2000, beforeAnswerMs: 5000, withinMs: 95_000 },
    tokenizing: { atOnce: 16, perSubject: 1, windows: 4 },
    usageDays: 90,
  },
  'ai/ai-refusal.ts': { maxRetrySeconds: 60 },
  'ai/web-search-limits.ts': {
    webSearchLimits: { rounds: 3, searches: 3, results: 5, characters: 1000, query: 400, timeoutMs: 5000 },
  },
  'ai/upstreams.ts': {
    answerCaps: { answer: 1_048_576, json: 8_388_608, stream: 67_108_864, perToken: 64, floor: 16_384 },
    figuresBelieved: { times: 20, floor: 20_000 },
    tokenizeMs: 1000,
    upstreamBreaker: { failures: 3, pauseMs: 10_000 },
    upstreamSlots: { waitMs: 5000, waitingPerAccount: 32 },
    upstreamTimes: { connectMs: 2000, firstPieceMs: 30_000, silenceMs: 20_000, afterFinishMs: 2000 },
  },
  // Contract 4.24, V1.
  'apps/variables.ts': { variableLimits: { max: 256, nameCharacters: 1024, valueCharacters: 4096 } },
  // Contract 6.8.
  'git/webhooks/replies.ts': {
    fullReply: { status: 429 },
    malformedReply: { status: 400 },
    unavailableReply: { status: 503 },
    unknownReply: { status: 404 },
    unsignedVerdict: { status: 401 },
  },
}

/** Defaults of settings that users feel (docs/settings.md), as they are written there. */
export const settingsAsAgreed: Record<string, string> = {
  // Contract 7.43; O8: 16 uploads.
  BLOB_CONCURRENT_UPLOADS: '16',
  BLOB_MIN_SIZE: '0',
  // Contract 7.43; K3: 8 open uploads, 205 parts, 10 GiB.
  CHUNKED_MAX_OPEN: '8',
  CHUNKED_MAX_PARTS: '205',
  CHUNKED_MAX_SIZE: '10737418240',
  // U8: 180, 30 and 7 days.
  HISTORY_DAYS: '180',
  ANALYTICS_MB: '4096',
  ANALYTICS_QUERIES: '2',
  DEPLOYMENT_LOG_DAYS: '30',
  ARCHIVE_DAYS: '7',
  // Z: any second of the last 7 days.
  POINT_IN_TIME_DAYS: '7',
  // E3: 1 GB for each 256 MB.
  DISK_MB_PER_256MB: '1024',
  // E25: 100 MB and 2000 operations a second.
  HOST_DISK_MBPS: '100',
  HOST_DISK_IOPS: '2000',
  HEALTH_GATE_SECONDS: '60',
  BUILD_SLOTS: '2',
  GIT_MAX_MB: '100',
  GIT_TIMEOUT_SECONDS: '120',
  EDGE_CONNECTIONS_PER_ADDRESS: '100',
  // Q20.
  EDGE_CONNECTIONS_PER_APP: '1000',
  EDGE_APP_BODY_MB: '512',
  // Contract 9.1: 30 minutes.
  RATE_LIMIT_BLOCK_SECONDS: '1800',
  RATE_LIMIT_SCALE: '1',
}
