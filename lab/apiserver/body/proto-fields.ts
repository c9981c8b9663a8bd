/**
 * Field numbers of the messages that kubectl's generators (`kubectl create namespace` and the like) and typed Go clients send as
 * protocol buffers, by model: `name=number`. Types are those of the schema. Source: the generated.proto files of k8s.io/api and
 * k8s.io/apimachinery, whose numbers never change.
 */
export const protoFields: Readonly<Record<string, string>> = {
  V1ObjectMeta:
    'name=1 generateName=2 namespace=3 selfLink=4 uid=5 resourceVersion=6 generation=7 creationTimestamp=8 deletionTimestamp=9 deletionGracePeriodSeconds=10 labels=11 annotations=12 ownerReferences=13 finalizers=14 managedFields=17',
  V1OwnerReference: 'kind=1 name=3 uid=4 apiVersion=5 controller=6 blockOwnerDeletion=7',
  V1Namespace: 'metadata=1 spec=2 status=3',
  V1NamespaceSpec: 'finalizers=1',
  V1NamespaceStatus: 'phase=1 conditions=2',
  V1ConfigMap: 'metadata=1 data=2 binaryData=3 immutable=4',
  V1Secret: 'metadata=1 data=2 type=3 stringData=4 immutable=5',
  V1ServiceAccount: 'metadata=1 secrets=2 imagePullSecrets=3 automountServiceAccountToken=4',
  V1LocalObjectReference: 'name=1',
  V1ObjectReference: 'kind=1 namespace=2 name=3 uid=4 apiVersion=5 resourceVersion=6 fieldPath=7',
  V1Service: 'metadata=1 spec=2 status=3',
  V1ServiceSpec:
    'ports=1 selector=2 clusterIP=3 type=4 externalIPs=5 sessionAffinity=7 loadBalancerIP=8 loadBalancerSourceRanges=9 externalName=10 externalTrafficPolicy=11 healthCheckNodePort=12 publishNotReadyAddresses=13 sessionAffinityConfig=14 ipFamilyPolicy=17 clusterIPs=18 ipFamilies=19 allocateLoadBalancerNodePorts=20 loadBalancerClass=21 internalTrafficPolicy=22 trafficDistribution=23',
  V1ServicePort: 'name=1 protocol=2 port=3 targetPort=4 nodePort=5 appProtocol=6',
  V1ServiceStatus: 'loadBalancer=1 conditions=2',
  V1LoadBalancerStatus: 'ingress=1',
  V1SessionAffinityConfig: 'clientIP=1',
  V1ClientIPConfig: 'timeoutSeconds=1',
  AuthenticationV1TokenRequest: 'metadata=1 spec=2 status=3',
  V1TokenRequestSpec: 'audiences=1 boundObjectRef=3 expirationSeconds=4',
  V1TokenRequestStatus: 'token=1 expirationTimestamp=2',
  V1BoundObjectReference: 'kind=1 apiVersion=2 name=3 uid=4',
  V1Deployment: 'metadata=1 spec=2 status=3',
  V1DeploymentSpec:
    'replicas=1 selector=2 template=3 strategy=4 minReadySeconds=5 revisionHistoryLimit=6 paused=7 progressDeadlineSeconds=9',
  V1DeploymentStatus:
    'observedGeneration=1 replicas=2 updatedReplicas=3 availableReplicas=4 unavailableReplicas=5 conditions=6 readyReplicas=7 collisionCount=8 terminatingReplicas=9',
  V1DeploymentStrategy: 'type=1 rollingUpdate=2',
  V1RollingUpdateDeployment: 'maxUnavailable=1 maxSurge=2',
  V1LabelSelector: 'matchLabels=1 matchExpressions=2',
  V1LabelSelectorRequirement: 'key=1 operator=2 values=3',
  V1PodTemplateSpec: 'metadata=1 spec=2',
  V1PodSpec:
    'volumes=1 containers=2 restartPolicy=3 terminationGracePeriodSeconds=4 activeDeadlineSeconds=5 dnsPolicy=6 nodeSelector=7 serviceAccountName=8 serviceAccount=9 nodeName=10 hostNetwork=11 hostPID=12 hostIPC=13 securityContext=14 imagePullSecrets=15 hostname=16 subdomain=17 schedulerName=19 initContainers=20 automountServiceAccountToken=21 tolerations=22 priorityClassName=24 priority=25 shareProcessNamespace=27 enableServiceLinks=30 preemptionPolicy=31',
  V1PodSecurityContext: 'runAsUser=2 runAsNonRoot=3 supplementalGroups=4 fsGroup=5 runAsGroup=6',
  V1Toleration: 'key=1 operator=2 value=3 effect=4 tolerationSeconds=5',
  V1Container:
    'name=1 image=2 command=3 args=4 workingDir=5 ports=6 env=7 resources=8 terminationMessagePath=13 imagePullPolicy=14 stdin=16 stdinOnce=17 tty=18 terminationMessagePolicy=20',
  V1ContainerPort: 'name=1 hostPort=2 containerPort=3 protocol=4 hostIP=5',
  V1EnvVar: 'name=1 value=2',
  V1ResourceRequirements: 'limits=1 requests=2',
  V1Role: 'metadata=1 rules=2',
  V1ClusterRole: 'metadata=1 rules=2 aggregationRule=3',
  V1AggregationRule: 'clusterRoleSelectors=1',
  V1PolicyRule: 'verbs=1 apiGroups=2 resources=3 resourceNames=4 nonResourceURLs=5',
  V1RoleBinding: 'metadata=1 subjects=2 roleRef=3',
  V1ClusterRoleBinding: 'metadata=1 subjects=2 roleRef=3',
  RbacV1Subject: 'kind=1 apiGroup=2 name=3 namespace=4',
  V1RoleRef: 'apiGroup=1 kind=2 name=3',
  V1DeleteOptions:
    'gracePeriodSeconds=1 preconditions=2 orphanDependents=3 propagationPolicy=4 dryRun=5 ignoreStoreReadErrorWithClusterBreakingPotential=6',
  V1Preconditions: 'uid=1 resourceVersion=2',
  V1Eviction: 'metadata=1 deleteOptions=2',
  V1Binding: 'metadata=1 target=2',
  V1SelfSubjectAccessReview: 'metadata=1 spec=2 status=3',
  V1SelfSubjectAccessReviewSpec: 'resourceAttributes=1 nonResourceAttributes=2',
  V1ResourceAttributes: 'namespace=1 verb=2 group=3 version=4 resource=5 subresource=6 name=7 fieldSelector=8 labelSelector=9',
  V1NonResourceAttributes: 'path=1 verb=2',
  V1SubjectAccessReviewStatus: 'allowed=1 reason=2 evaluationError=3 denied=4',
};
