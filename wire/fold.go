package wire

// What V12 says in other words than the message types of this package. The generated codecs call these functions and
// nothing else treats V12 specially. (A bare key where newer releases send ObjectMeta needs no function: the codec reads
// and writes its Key.)

// softPinFrom12 reads V12's with_soft_pin. Its false says nothing about a pin that exists already.
func softPinFrom12(x *ReplicateConfig, withSoftPin bool) {
	x.SoftPinAction = SoftPinPreserve
	if withSoftPin {
		x.SoftPinAction = SoftPinEnable
	}
}

// softPinTo12 is with_soft_pin for V12.
func softPinTo12(x *ReplicateConfig) bool { return x.SoftPinAction == SoftPinEnable }

// shownTo12 tells whether V12 can read a replica: it knows no distributed file system. Lists leave the others out.
func shownTo12(x *ReplicaDescriptor) bool { return x.DescriptorVariant.Index < VariantDFS }

// diskTo12 describes a replica that V12 cannot read, and that cannot be left out, by the nearest thing it knows: a file.
func diskTo12(x *ReplicaVariant) *DiskDescriptor {
	if x.DFS == nil {
		return &DiskDescriptor{}
	}
	return &DiskDescriptor{FilePath: x.DFS.FilePath, ObjectSize: x.DFS.ObjectSize}
}
